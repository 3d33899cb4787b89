package statefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/internal/unwritten"
)

type content struct {
	Version  int    `json:"version"`
	Sequence uint64 `json:"sequence,omitempty"`
	Text     string `json:"text"`
}

func format() statefile.Format[content] {
	return statefile.Format[content]{Name: "a.json", Version: 2, Limit: 100, DirMode: 0o700,
		Check: func(c *content) error {
			if c.Text == "" {
				return errors.New("it has no text")
			}
			return nil
		}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// store is a store that is only a file.
func store(f statefile.Format[content]) statefiletest.Store {
	s := statefiletest.Store{
		Files: []string{"sub/a.json"}, Before: "before.json", After: "after.json", Old: "old", New: "new",
		Rules: statefiletest.RulesOf(&f),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			c, err := f.File(filepath.Join(dir, "sub/a.json"), disk).Load()
			if errors.Is(err, fs.ErrNotExist) || f.Damaged == statefile.MoveAside {
				err = nil
			}
			return c.Text, err
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			file := f.File(filepath.Join(dir, "sub/a.json"), disk)
			c, _ := file.Load()
			return file.Save(content{Version: 2, Sequence: c.Sequence, Text: "new"})
		},
	}
	return s
}

func TestFile(t *testing.T) {
	for name, change := range map[string]func(*statefile.Format[content]){
		"refuse":     func(*statefile.Format[content]) {},
		"move aside": func(f *statefile.Format[content]) { f.Damaged, f.Newer = statefile.MoveAside, statefile.MoveAside },
		"atomic":     func(f *statefile.Format[content]) { f.Durability = statefile.Atomic },
		"repeat":     func(f *statefile.Format[content]) { f.Repeat = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := format()
			change(&f)
			store(f).Run(t)
		})
	}
}

// With a second copy any one of the two files may be unusable.
func TestSecondCopy(t *testing.T) {
	f := format()
	f.Sequence = func(c *content) uint64 { return c.Sequence }
	path := filepath.Join(t.TempDir(), "a.json")
	must(t, f.File(path, statefile.Disk{}).Save(content{Version: 2, Sequence: 1, Text: "one"}))
	one := text(t, path)
	must(t, f.File(path, statefile.Disk{}).Save(content{Version: 2, Sequence: 2, Text: "two"}))
	two := text(t, path)
	if text(t, path+".backup") != two {
		t.Errorf("the second copy is %s", text(t, path+".backup"))
	}
	newer := strings.Replace(two, `"version":2`, `"version":3`, 1)
	for name, c := range map[string]struct{ first, second, want string }{
		"killed between them":     {two, one, "two"},
		"first damaged":           {"{", one, "one"},
		"second damaged":          {two, "", "two"},
		"first gone":              {"", two, "two"},
		"an older first":          {one, two, "two"},
		"both damaged":            {"{", "{", ""},
		"first of a newer daemon": {newer, one, ""},
	} {
		must(t, errors.Join(os.WriteFile(path, []byte(c.first), 0o600),
			os.WriteFile(path+".backup", []byte(c.second), 0o600)))
		if name == "first gone" {
			must(t, os.Remove(path))
		}
		file := f.File(path, statefile.Disk{})
		got, err := file.Load()
		if got.Text != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := file.Save(content{Version: 2, Sequence: 9, Text: "nine"}); (err == nil) != (c.want != "") {
			t.Errorf("%s: Save = %v", name, err)
		}
	}
}

// What Load has refused is replaced after the administrator has removed it, or its owner has moved it aside.
func TestRefusalEnds(t *testing.T) {
	f := format()
	path := filepath.Join(t.TempDir(), "a.json")
	for name, end := range map[string]func(file *statefile.File[content], err error){
		"removed": func(*statefile.File[content], error) { must(t, os.Remove(path)) },
		"repaired": func(file *statefile.File[content], _ error) {
			must(t, os.WriteFile(path, []byte(`{"version":2,"text":"x"}`), 0o600))
			_, _ = file.Load()
		},
		"moved aside": func(file *statefile.File[content], err error) { file.MoveAside(err) },
	} {
		must(t, os.WriteFile(path, []byte("{"), 0o600))
		file := f.File(path, statefile.Disk{})
		_, err := file.Load()
		if !errors.Is(err, statefile.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s: Load = %v", name, err)
		}
		if err := file.Save(content{Version: 2, Text: "x"}); !errors.Is(err, statefile.ErrDamaged) {
			t.Errorf("%s: Save = %v", name, err)
		}
		end(file, err)
		if err := file.Save(content{Version: 2, Text: "y"}); err != nil || !strings.Contains(text(t, path), "y") {
			t.Errorf("%s: Save = %v, the file is %s", name, err, text(t, path))
		}
		if name == "moved aside" && (text(t, path+statefile.SuffixDamaged) != "{" ||
			statefile.MovedTo(err) != path+statefile.SuffixDamaged) {
			t.Errorf("it is at %q", statefile.MovedTo(err))
		}
	}
	if f.File(path, statefile.Disk{}).MoveAside(syscall.EIO) {
		t.Error("a file that cannot be read was moved aside")
	}
}

// The same content is not written twice, unless the file has gone.
func TestSameContentIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	f, disk := format(), statefiletest.New(dir, statefiletest.Killed, 0)
	file := f.File(path, statefile.Disk{Operations: disk})
	same := content{Version: 2, Text: "same"}
	must(t, file.Save(same))
	written := len(disk.Operations())
	must(t, file.Save(same))
	other := f.File(path, statefile.Disk{Operations: disk})
	if c, err := other.Load(); err != nil || c != same {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, other.Save(same))
	if n := len(disk.Operations()); n != written {
		t.Errorf("written again: %q", disk.Operations()[written:])
	}
	must(t, os.Remove(path))
	must(t, file.Save(same))
	if text(t, path) == "" {
		t.Error("the file that has gone was not written")
	}
	if err := file.Save(content{Version: 2, Text: strings.Repeat("x", 100)}); err == nil {
		t.Error("a file was written that could not be read")
	}
	// The administrator may keep it elsewhere.
	must(t, os.Rename(path, filepath.Join(dir, "b.json")))
	must(t, os.Symlink("b.json", path))
	if c, err := file.Load(); err != nil || c != same {
		t.Errorf("behind a link: %+v, %v", c, err)
	}
}

// A removal that failed is repeated, and Load knows of it meanwhile.
func TestRemoveIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := format()
		f.Repeat = true
		files, disk := unwritten.New(), statefiletest.New(dir, statefiletest.Fails, 7)
		go func() { _ = files.Run(t.Context(), func([]unwritten.File) {}) }()
		file := f.File(filepath.Join(dir, "a.json"), statefile.Disk{Operations: disk, Unwritten: files})
		must(t, file.Save(content{Version: 2, Text: "x"})) // remove, create, write, fsync, rename, sync
		disk.Err = syscall.EROFS
		must(t, os.WriteFile(file.Path()+statefile.SuffixNewer, nil, 0o600))
		if err := file.Remove(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("Remove = %v", err)
		}
		if _, err := file.Load(); !errors.Is(err, fs.ErrNotExist) || len(files.List()) != 1 {
			t.Errorf("Load = %v, reported %v", err, files.List())
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if entries, _ := os.ReadDir(dir); len(entries) > 0 || len(files.List()) > 0 {
			t.Errorf("there are %v, reported %v", entries, files.List())
		}
	})
}

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	f := format()
	d := f.Dir(path, statefile.Disk{})
	must(t, d.Clean())
	for _, key := range []string{"", "../a", ".a", "a/b", "a\x00"} {
		if _, err := d.File(key); err == nil {
			t.Errorf("key %q is accepted", key)
		}
	}
	for _, key := range []string{"a", "b"} {
		file, err := d.File(key)
		must(t, err)
		must(t, file.Save(content{Version: 2, Text: key}))
	}
	must(t, errors.Join(os.WriteFile(filepath.Join(path, "c.json.tmp"), nil, 0o600),
		os.WriteFile(filepath.Join(path, "b.json.damaged"), nil, 0o600),
		os.WriteFile(filepath.Join(path, "e.json.newer"), nil, 0o600)))
	must(t, d.Clean())
	keys, err := d.Keys()
	must(t, err)
	if slices.Sort(keys); !slices.Equal(keys, []string{"a", "b", "e"}) {
		t.Errorf("keys %v", keys)
	}
	for _, key := range []string{"b", "e", "z"} {
		must(t, d.Remove(key))
	}
	if entries, _ := os.ReadDir(path); len(entries) != 1 || entries[0].Name() != "a.json" {
		t.Errorf("there are %v", entries)
	}
}

// A write that was refused is neither what Load returns nor what a repetition writes, until the file has gone.
func TestRefusedWriteIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := format()
		f.Repeat = true
		path := filepath.Join(t.TempDir(), "a.json")
		newer := `{"version":3,"text":"of a newer one"}`
		must(t, os.WriteFile(path, []byte(newer), 0o600))
		files := unwritten.New()
		go func() { _ = files.Run(t.Context(), func([]unwritten.File) {}) }()
		file := f.File(path, statefile.Disk{Unwritten: files})
		for range 3 {
			if _, err := file.Load(); !errors.Is(err, statefile.ErrNewer) {
				t.Fatalf("Load = %v", err)
			}
			if err := file.Save(content{Version: 2, Text: "x"}); !errors.Is(err, statefile.ErrNewer) {
				t.Fatalf("Save = %v", err)
			}
			time.Sleep(time.Minute)
			if now := text(t, path); now != newer {
				t.Fatalf("the file is %s", now)
			}
		}
		must(t, os.Remove(path))
		time.Sleep(time.Minute)
		if c, err := file.Load(); err != nil || c.Text != "x" || !strings.Contains(text(t, path), `"x"`) {
			t.Errorf("after its removal: %+v, %v, the file is %s", c, err, text(t, path))
		}
	})
}

// The same content is written again if it is to survive more than when it was written.
func TestDurableSaveOfTheSameContent(t *testing.T) {
	dir := t.TempDir()
	f, disk := format(), statefiletest.New(dir, statefiletest.Killed, 0)
	f.Durability = statefile.Atomic
	file := f.File(filepath.Join(dir, "a.json"), statefile.Disk{Operations: disk})
	same := content{Version: 2, Text: "same"}
	must(t, file.Save(same))
	before := len(disk.Operations())
	must(t, file.SaveWith(same, statefile.Durable))
	if added := disk.Operations()[before:]; !slices.Contains(added, "sync "+filepath.Base(dir)) {
		t.Errorf("the durable save did %q", added)
	}
	before = len(disk.Operations())
	must(t, file.SaveWith(same, statefile.Durable))
	must(t, file.Save(same))
	if added := disk.Operations()[before:]; len(added) > 0 {
		t.Errorf("written again: %q", added)
	}
}

// On a read-only disk there is nothing to remove of a file that does not exist.
func TestRemoveNothingFromAReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	disk := statefiletest.New(dir, statefiletest.Fails, 1)
	disk.Err = syscall.EROFS
	f := format()
	if err := f.File(filepath.Join(dir, "a.json"), statefile.Disk{Operations: disk}).Remove(); err != nil {
		t.Error(err)
	}
}

// A process that only reads a file leaves it where it is.
func TestRead(t *testing.T) {
	f := format()
	f.Damaged, f.Newer = statefile.MoveAside, statefile.MoveAside
	path := filepath.Join(t.TempDir(), "a.json")
	for data, want := range map[string]error{
		"": statefile.ErrDamaged, `{"version":3}`: statefile.ErrNewer, `{"version":2,"text":"a"}`: nil,
	} {
		must(t, os.WriteFile(path, []byte(data), 0o600))
		if got, err := f.Read(path, statefile.Disk{}); !errors.Is(err, want) || want == nil && got.Text != "a" {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
		if got := text(t, path); got != data {
			t.Errorf("%s is now %s", data, got)
		}
	}
}
