package convert

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/manifest"
)

var update = flag.Bool("update", false, "write the expected results in testdata")

// testHost is a machine with the files of a directory, which is at /src. /dev/null is a device.
func testHost(dir string) podbuild.Host {
	inside := func(path string) string { return filepath.Join(dir, strings.TrimPrefix(path, "/src")) }
	return podbuild.Host{
		Dir: "/src", Home: "/root",
		LookupEnv: func(name string) (string, bool) { return "from the environment", name == "FROM_ENVIRONMENT" },
		ReadFile: func(path string) ([]byte, error) {
			data, err := os.ReadFile(inside(path))
			if err != nil {
				err = errors.New("no such file")
			}
			return data, err
		},
		Mode: func(path string) (fs.FileMode, bool) {
			if path == "/dev/null" {
				return fs.ModeDevice | fs.ModeCharDevice, true
			}
			info, err := os.Stat(inside(path))
			if err != nil {
				return 0, false
			}
			return info.Mode(), true
		},
	}
}

// convertDir converts the files of a directory of testdata, other than those that begin with a
// dot or "expected", and those below "files".
func convertDir(t *testing.T, dir string, o Options) (string, Result) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []Input
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "expected") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, Input{Name: e.Name(), Data: data})
	}
	o.Host = testHost(dir)
	result := Convert(inputs, o)
	var text strings.Builder
	for i, u := range result.Units {
		if i > 0 {
			text.WriteString("---\n")
		}
		part, err := Text(u)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(part)
	}
	return text.String(), result
}

// Each directory of testdata is converted to its expected.yaml with the report of
// expected.txt, and the daemon accepts the result without another word.
func TestConversions(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("testdata has %v, %v", dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, result := convertDir(t, dir, Options{Profiles: []string{"debug"}})
			var lines strings.Builder
			for _, e := range result.Report.Entries() {
				lines.WriteString(e.String() + "\n")
				if e.At.Line == 0 && !strings.HasSuffix(e.At.File, ".container") && !strings.HasSuffix(e.At.File, ".volume") &&
					!strings.HasSuffix(e.At.File, ".build") {
					t.Errorf("no line: %s", e)
				}
			}
			for name, got := range map[string]string{"expected.yaml": text, "expected.txt": lines.String()} {
				file := filepath.Join(dir, name)
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("%s is not what is expected (go test -update shows the difference in git):\n%s", name, got)
				}
			}
			if result.Report.Count(report.Error) > 0 {
				if text != "" {
					t.Error("there is a result in spite of an error")
				}
				return
			}
			_, faults := manifest.NewLoader("node",
				manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: "result", Data: []byte(text)})
			for _, f := range faults {
				if !f.Warning {
					t.Error(f)
				}
			}
		})
	}
}
