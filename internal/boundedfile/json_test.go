package boundedfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	var got struct{ Names []string }
	if err := ReadJSON(path, 100, 2, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for content, want := range map[string]string{
		`{"version":2,"names":["a"]}`: "",
		`{"version":2,"names":["a`:    "cannot be decoded",
		``:                            "cannot be decoded",
		`{"version":2,"names":1}`:     "cannot be decoded",
		`{"version":3,"names":{}}`:    "has version 3, and this program reads version 2",
		`{"names":["b"]}`:             "has version 0, and this program reads version 2",
		`{"version":2,"names":["` + strings.Repeat("x", 100) + `"]}`: "more than 100 bytes",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got.Names = nil
		err := ReadJSON(path, 100, 2, &got)
		if want == "" && (err != nil || len(got.Names) != 1) {
			t.Errorf("%s: %v, %v", content, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
