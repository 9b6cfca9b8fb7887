package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

const envPrefix = "PAGETALLY_"

// configCommand prints the configuration in effect.
type configCommand struct{}

func (configCommand) Help() string {
	return "Prints every setting with its value in effect, as a YAML file that --config reads. Passwords are masked."
}

// Run prints the settings that the flags, the environment and the file add up to.
func (configCommand) Run(s *Settings, out io.Writer) error {
	text, err := s.yaml()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// yaml is the settings as a configuration file, secrets masked, in the order of the struct.
func (s *Settings) yaml() ([]byte, error) {
	masked := s.masked()
	value := reflect.ValueOf(masked)
	var items yaml.MapSlice
	for _, flag := range settingFlags() {
		items = append(items, yaml.MapItem{Key: flag.Name, Value: printable(value.FieldByIndex(flag.index).Interface())})
	}
	return yaml.Marshal(items)
}

func printable(v any) any {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return v
}

// settingFlag is one setting as kong sees it.
type settingFlag struct {
	*kong.Flag
	index []int // of the field in Settings
}

// settingFlags lists the settings that a configuration file may hold.
func settingFlags() []settingFlag {
	var s Settings
	parser, err := kong.New(&s, kong.NoDefaultHelp())
	if err != nil {
		panic(fmt.Sprintf("settings: %v", err)) // the struct's tags are constants
	}
	base := reflect.ValueOf(&s).Elem()
	var flags []settingFlag
	for _, flag := range parser.Model.Flags {
		for i := range base.NumField() {
			if flag.Target.Addr().Pointer() == base.Field(i).Addr().Pointer() && flag.Name != "config" {
				flags = append(flags, settingFlag{Flag: flag, index: []int{i}})
			}
		}
	}
	return flags
}

// yamlFile is a configuration file as a source of flag values.
type yamlFile struct {
	name   string
	values map[string]any
}

// loadYAML reads a configuration file: one mapping of flag names to values. Unknown names are refused by Validate.
func loadYAML(r io.Reader) (kong.Resolver, error) {
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return nil, err
	}
	f := yamlFile{name: "configuration file", values: map[string]any{}}
	if file, ok := r.(*os.File); ok {
		f.name = file.Name()
	}
	if err := yaml.Unmarshal(text, &f.values); err != nil {
		return nil, fmt.Errorf("%s: %s", f.name, yaml.FormatError(err, false, false)) // without the source, which may hold a password
	}
	return f, nil
}

// Validate refuses keys that no setting has.
func (f yamlFile) Validate(*kong.Application) error {
	known := settingFlags()
	var unknown []string
	for key := range f.values {
		if !slices.ContainsFunc(known, func(s settingFlag) bool { return s.Name == key }) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("%s: unknown key %s; `pagetally config` prints the known ones", f.name, strings.Join(unknown, ", "))
	}
	return nil
}

// Resolve gives the file's value of a setting unless the environment has one.
func (f yamlFile) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := f.values[flag.Name]
	if !ok || parent.App == nil {
		return nil, nil
	}
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	if list, ok := value.([]any); ok {
		if flag.Name == "sites" {
			text, err := yaml.Marshal(list)
			return string(text), err
		}
		return joinList(list), nil
	}
	return fmt.Sprint(value), nil
}

// joinList writes a YAML list as the flag's text.
func joinList(list []any) string {
	var texts []string
	for _, v := range list {
		texts = append(texts, fmt.Sprint(v))
	}
	return strings.Join(texts, ",")
}

// settingsFromEnv gives each setting, and no flag of a subcommand, its environment variable.
func settingsFromEnv() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, flag := range k.Model.Flags {
			if flag.Name == "help" || flag.Name == "version" {
				continue
			}
			name := envName(flag.Name)
			flag.Envs = []string{name}
			flag.Tag.Envs = []string{name}
		}
		return nil
	})
}

// envName is the environment variable of a setting.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// unknownEnv lists variables that look like settings and are none. They are warned of, not refused: Kubernetes adds
// PAGETALLY_PORT and PAGETALLY_SERVICE_HOST of its own for a service of that name.
func unknownEnv(environ []string) []string {
	known := map[string]bool{envPrefix + "CONFIG": true}
	for _, flag := range settingFlags() {
		known[envName(flag.Name)] = true
	}
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		kubernetes := strings.HasPrefix(name, envPrefix+"PORT") || strings.HasPrefix(name, envPrefix+"SERVICE_")
		if strings.HasPrefix(name, envPrefix) && !known[name] && !kubernetes {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
