package embedded

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed config.xml.tmpl
var configTemplate string

//go:embed users.xml.tmpl
var usersTemplate string

var templates = template.Must(template.Must(
	template.New("config.xml").Funcs(template.FuncMap{"xml": escapeXML}).Parse(configTemplate)).
	New("users.xml").Parse(usersTemplate))

// databaseName is what may stand in a grant unquoted.
var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const (
	configFile = "config.xml"
	usersFile  = "users.xml"
	dataDir    = "data" // ClickHouse's own path
	logDir     = "log"
	tempDir    = "tmp"

	writerUser = "pagetally"
	readerUser = "reader"
)

// settings is what the two files are made from.
type settings struct {
	Config
	TCPPort, HTTPPort          int // as kept, where Config has what was asked for
	DataDir, LogDir, UsersFile string
	WriterUser, ReaderUser     string
	WriterHash, ReaderHash     string // SHA-256 in hex: the files hold no password
	ReaderFrom                 []string
	Grants                     []string
}

// writeSettings renders both files into the engine's directory, afresh at every start: nobody's edits are lost silently
// because the files say so.
func writeSettings(cfg Config, id identity) error {
	s := newSettings(cfg, id)
	for _, name := range []string{configFile, usersFile} {
		var text strings.Builder
		if err := templates.ExecuteTemplate(&text, name, s); err != nil {
			return fmt.Errorf("render %s: %w", name, err)
		}
		if err := replaceFile(filepath.Join(cfg.Dir, name), []byte(text.String())); err != nil {
			return err
		}
	}
	return nil
}

func newSettings(cfg Config, id identity) settings {
	s := settings{
		Config: cfg, TCPPort: id.TCPPort, HTTPPort: id.HTTPPort,
		DataDir:    filepath.Join(cfg.Dir, dataDir) + "/",
		LogDir:     filepath.Join(cfg.Dir, logDir),
		UsersFile:  filepath.Join(cfg.Dir, usersFile),
		WriterUser: writerUser, ReaderUser: readerUser,
		WriterHash: hashPassword(id.WriterPassword),
		ReaderHash: hashPassword(id.ReaderPassword),
		ReaderFrom: []string{loopback, "::1"},
		Grants:     readerGrants(cfg.Database),
	}
	if cfg.exposed() {
		s.ReaderFrom = []string{"::/0"}
	}
	return s
}

// readerSystemTables are what Grafana's ClickHouse plugin reads for its query builder, variables and ad hoc filters.
var readerSystemTables = []string{"databases", "tables", "columns", "functions", "settings", "one", "numbers"}

// secretTables hold what would undo the visitors' anonymity or let a reader act as someone else.
var secretTables = []string{"salts", "keys"}

func readerGrants(database string) []string {
	grants := []string{"GRANT SELECT ON " + database + ".*"}
	for _, table := range secretTables {
		grants = append(grants, "REVOKE SELECT ON "+database+"."+table)
	}
	for _, table := range readerSystemTables {
		grants = append(grants, "GRANT SELECT ON system."+table)
	}
	return grants
}

func hashPassword(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

func escapeXML(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(text))
	return b.String(), err
}
