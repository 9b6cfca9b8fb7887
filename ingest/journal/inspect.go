package journal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/oklog/ulid/v2"
)

// List lists the segments of a directory in one state, by rising id, without a Journal: a server may be running on it.
func List(dir string, state State) ([]Info, error) {
	if state >= numStates {
		return nil, ErrState
	}
	return listFolder(OSFS{}, dir, state)
}

// ReadSegmentFile reads and checks a segment file by its path, DIR/STATE/ULID.seg, without a Journal: a server may be
// running on the directory. In open/ the file may end in a torn frame, which Segment.Torn reports.
func ReadSegmentFile(path string) (*Segment, error) {
	id, ok := segmentID(filepath.Base(path))
	if !ok {
		return nil, fmt.Errorf("%s: not named like a segment", path)
	}
	state, err := ParseState(filepath.Base(filepath.Dir(path)))
	if err != nil {
		return nil, err
	}
	return readSegment(OSFS{}, path, id, state)
}

func readSegment(fsys FS, path string, id ulid.ULID, state State) (*Segment, error) {
	b, err := readAll(fsys, path)
	if err != nil {
		return nil, err
	}
	return newSegment(b, id, state, state == StateOpen)
}

// listFolder reads from the files what a catalogue would say about one state.
func listFolder(fsys FS, dir string, state State) ([]Info, error) {
	files, err := fsys.ReadDir(stateDir(dir, state))
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(files))
	for _, file := range files {
		id, ok := segmentID(file.Name)
		if !ok {
			continue
		}
		info, err := readInfo(fsys, dir, state, id)
		if notExist(err) { // moved on since the folder was read
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	sortByID(infos)
	return infos, nil
}

// readInfo describes a segment file. A sealed one is known by header and footer, an open one is read through.
func readInfo(fsys FS, dir string, state State, id ulid.ULID) (Info, error) {
	path := segmentPath(dir, state, id)
	if state == StateOpen {
		seg, err := readSegment(fsys, path, id, state)
		if errors.Is(err, ErrCorrupt) {
			return Info{ID: id, State: state, Damaged: true}, nil
		}
		if err != nil {
			return Info{}, err
		}
		return seg.Info, nil
	}
	f, err := fsys.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return readEnds(f, state, id)
}

// readEnds reads header and footer only: a directory may hold gigabytes.
func readEnds(f File, state State, id ulid.ULID) (Info, error) {
	size, err := f.Size()
	if err != nil {
		return Info{}, err
	}
	damaged := Info{ID: id, State: state, Bytes: size, Damaged: true}
	if size < headerSize+footerSize {
		return damaged, nil
	}
	head, foot := make([]byte, headerSize), make([]byte, footerSize)
	if err := readAt(f, head, 0); err != nil {
		return Info{}, err
	}
	if err := readAt(f, foot, size-footerSize); err != nil {
		return Info{}, err
	}
	h, err := decodeHeader(head)
	if errors.Is(err, ErrVersion) {
		return Info{}, err
	}
	if err != nil || h.id != id {
		return damaged, nil
	}
	t, err := decodeFooter(foot, id, size)
	if err != nil {
		return damaged, nil
	}
	return newInfo(h, t, state, size), nil
}
