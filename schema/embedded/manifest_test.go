package embedded

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestManifestPinsEveryPackage: each platform's package is locked at the one version, and by no download address.
func TestManifestPinsEveryPackage(t *testing.T) {
	dir := filepath.Join("..", "..", "deployments", "embedded")
	var manifest struct {
		OptionalDependencies map[string]string
	}
	var lock struct {
		Packages map[string]struct {
			Version, Resolved, Integrity string
		}
	}
	unmarshal(t, filepath.Join(dir, "package.json"), &manifest)
	unmarshal(t, filepath.Join(dir, "package-lock.json"), &lock)
	for _, platform := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}} {
		name, err := packageName(platform[0], platform[1])
		if err != nil {
			t.Fatal(err)
		}
		wanted, locked := manifest.OptionalDependencies["@chdb/"+name], lock.Packages["node_modules/@chdb/"+name]
		if wanted == "" || locked.Version != wanted {
			t.Errorf("%s: locked at %q, manifest wants %q", name, locked.Version, wanted)
		}
		if err := checkVersion(locked.Version); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if locked.Resolved != "" {
			t.Errorf("%s: locked to the address %s", name, locked.Resolved)
		}
		if name == "lib-linux-x64-gnu" && locked.Integrity == "" {
			t.Errorf("%s: no hash", name)
		}
	}
}

func unmarshal(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(readText(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
