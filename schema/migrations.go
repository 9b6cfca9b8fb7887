package schema

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migration is one file of migrations/: a version, and statements that are run once and in order. A file that was released is
// never edited; its checksum is recorded with every statement that ran.
type migration struct {
	version    int
	file       string
	checksum   string // SHA-256 of the file, before the layout is filled in
	statements []string
}

var fileName = regexp.MustCompile(`^(\d{4})_[a-z_]+\.sql$`)

// load reads the migrations in dir of fsys, filled in for one layout, in the order of their versions.
func load(fsys fs.FS, dir string, l layout) ([]migration, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var all []migration
	for _, entry := range entries {
		text, err := fs.ReadFile(fsys, dir+"/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		m, err := parse(entry.Name(), text, l)
		if err != nil {
			return nil, err
		}
		if want := len(all) + 1; m.version != want {
			return nil, fmt.Errorf("migration %s: version %d where %d is due", m.file, m.version, want)
		}
		all = append(all, m)
	}
	return all, nil
}

func parse(file string, text []byte, l layout) (migration, error) {
	match := fileName.FindStringSubmatch(file)
	if match == nil {
		return migration{}, fmt.Errorf("migration %s: name is not NNNN_words.sql", file)
	}
	version, _ := strconv.Atoi(match[1])
	tmpl, err := template.New(file).Funcs(l.funcs()).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return migration{}, fmt.Errorf("migration %s: %w", file, err)
	}
	var sql bytes.Buffer
	if err := tmpl.Execute(&sql, nil); err != nil {
		return migration{}, fmt.Errorf("migration %s: %w", file, err)
	}
	sum := sha256.Sum256(text)
	return migration{version: version, file: file, checksum: hex.EncodeToString(sum[:]), statements: split(sql.String())}, nil
}

// split cuts a file into statements, which end with a semicolon at the end of a line, and leaves out lines that are comments.
func split(sql string) []string {
	var statements []string
	for part := range strings.SplitSeq(sql+"\n", ";\n") {
		lines := slices.DeleteFunc(strings.Split(part, "\n"), func(line string) bool {
			return strings.HasPrefix(strings.TrimSpace(line), "--")
		})
		if s := strings.TrimSpace(strings.Join(lines, "\n")); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}
