package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

func scriptUnit(name, script string, source Source) Unit {
	content, faults := newScriptLoader().Load(LoadRequest{Source: source, Unit: name, Data: []byte(script)})
	return Unit{Name: name, Digest: Digest([]byte(script)), Content: content, Faults: faults}
}

func TestCheckpointRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests", "checkpoint.json")
	cp := openTestCheckpoint(t, path)
	cp.accept(SourceFile, []Unit{scriptUnit("f", "warn\na 1", SourceFile)}, true)
	cp.setDirectory(SourceFile, directoryIdentity{Device: 1, Inode: 2, Mounted: true})
	cp.setClaims(map[string]claim{"default/a-node": {Source: SourceFile, Unit: "f", UID: "file-a-1"}})
	if err := cp.Save(); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(file); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v (%v), want %v", file, info.Mode(), err, mode)
		}
	}
	if _, err := os.Stat(path + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("the temporary file is still there: %v", err)
	}

	again := openTestCheckpoint(t, path)
	unit, ok := again.accepted(SourceFile, "f")
	if !ok || unit.Digest != Digest([]byte("warn\na 1")) || unit.Documents[0].Pod.Spec.Containers[0].Image != "1" ||
		len(unit.Faults) != 1 {
		t.Errorf("unit is %+v, %v", unit, ok)
	}
	if again.directory(SourceFile) != cp.directory(SourceFile) || len(again.claims()) != 1 || again.wasLost(SourceFile) {
		t.Errorf("state is %+v", again.state)
	}
	if pod, ok := again.known(SourceFile, "node")(Digest([]byte("a 1"))); !ok || pod.UID != "file-a-1" {
		t.Errorf("known is %v, %v", pod, ok)
	}
	if _, ok := again.known(SourceHTTP, "node")(Digest([]byte("a 1"))); ok {
		t.Error("another source's pod is known")
	}
	if _, ok := again.known(SourceFile, "renamed")(Digest([]byte("a 1"))); ok {
		t.Error("another node's pod is known")
	}
}

// A pod with many fields is read back as it was written.
func TestCheckpointStoresCompletePods(t *testing.T) {
	var pod v1.Pod
	data := `{"metadata":{"name":"a","namespace":"default","uid":"u","labels":{"x":"y"}},"spec":{"containers":[{"name":"c","image":"i",
		"resources":{"limits":{"cpu":"1500m","memory":"1Gi"}},"ports":[{"containerPort":80,"hostIP":"::1"}],
		"livenessProbe":{"httpGet":{"port":"web"}}}],"terminationGracePeriodSeconds":0,"volumes":[{"name":"e","emptyDir":{"sizeLimit":"1Mi"}}]}}`
	if err := json.Unmarshal([]byte(data), &pod); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	cp := openTestCheckpoint(t, path)
	cp.accept(SourceFile,
		[]Unit{{Name: "f", Digest: "d", Content: Content{Documents: []Document{{Digest: "x", Pod: &pod}}}}}, true)
	if err := cp.Save(); err != nil {
		t.Fatal(err)
	}
	unit, _ := openTestCheckpoint(t, path).accepted(SourceFile, "f")
	if !sameDesired(unit.Documents[0].Pod, &pod) || !sameStatus(unit.Documents[0].Pod, &pod) {
		t.Errorf("read back %+v", unit.Documents[0].Pod)
	}
}

func TestCheckpointMovesUnusableFileAside(t *testing.T) {
	for name, c := range map[string]struct{ content, suffix, warning string }{
		"cut off":      {`{"version":1,"sources":{"fi`, ".damaged", "is damaged"},
		"empty":        {``, ".damaged", "is damaged"},
		"zeros":        {"\x00\x00\x00\x00", ".damaged", "is damaged"},
		"no version":   {`{}`, ".damaged", "is damaged"},
		"no sources":   {`{"version":1,"claims":{}}`, "", ""},
		"null sources": {`{"version":1,"sources":null,"claims":{}}`, ".damaged", "is damaged"},
		"no pod": {
			`{"version":1,"sources":{"file":{"units":{"f":{"digest":"d","documents":[{"digest":"x"}]}}}},"claims":{}}`,
			".damaged", "document 1 of f is not a pod"},
		"no old pod": {
			`{"version":1,"sources":{"file":{"units":{"f":{"digest":"d","documents":[],"previous":{"documents":[{}]}}}}},"claims":{}}`, ".damaged", "document 1 of f is not a pod"},
		"newer version": {`{"version":7,"all":"else"}`, ".newer", "written by a newer podstead"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "checkpoint.json")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			lines := &logLines{}
			cp, err := OpenCheckpoint(path, lines.log(), statefile.Disk{})
			if err != nil {
				t.Fatal(err)
			}
			if c.suffix == "" {
				if cp.wasLost(SourceFile) || len(lines.lines) > 0 {
					t.Errorf("it was moved aside: %q", lines.lines)
				}
				return
			}
			if !cp.wasLost(SourceFile) || len(lines.with(c.warning)) != 1 || len(cp.units(SourceFile)) > 0 {
				t.Errorf("lost is %v, logged %q", cp.wasLost(SourceFile), lines.lines)
			}
			if kept, err := os.ReadFile(path + c.suffix); err != nil || string(kept) != c.content {
				t.Errorf("kept aside: %q, %v", kept, err)
			}
			// The loss is remembered across restarts until there is a complete set.
			cp.accept(SourceFile, nil, false)
			if err := cp.Save(); err != nil {
				t.Fatal(err)
			}
			if cp = openTestCheckpoint(t, path); !cp.wasLost(SourceFile) {
				t.Error("a restart forgot the loss")
			}
			cp.accept(SourceFile, []Unit{scriptUnit("f", "a 1", SourceFile)}, true)
			if err := cp.Save(); err != nil {
				t.Fatal(err)
			}
			if openTestCheckpoint(t, path).wasLost(SourceFile) {
				t.Error("the new checkpoint is lost as well")
			}
		})
	}
}

func TestCheckpointIsWrittenOnlyOnChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	cp := openTestCheckpoint(t, path)
	unit := scriptUnit("f", "warn\na 1", SourceFile)
	write := func() bool {
		_ = os.Remove(path)
		if err := cp.Save(); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(path)
		return err == nil
	}
	if write() {
		t.Error("written without content")
	}
	cp.accept(SourceFile, []Unit{unit}, true)
	if !write() {
		t.Error("not written after a change")
	}
	cp.accept(SourceFile, []Unit{unit}, true)
	cp.setDirectory(SourceFile, directoryIdentity{})
	broken := unit
	broken.Faults = Faults{{Unit: "f", Problem: "is broken"}}
	cp.accept(SourceFile, []Unit{broken}, true)
	cp.accept(SourceFile, nil, false)
	cp.RecordReady("unknown")
	if write() {
		t.Error("written without a change")
	}
	cp.accept(SourceFile, nil, true)
	if !write() {
		t.Error("not written after a unit was removed")
	}
}

func TestCheckpointKeepsReadyRevision(t *testing.T) {
	b := newConfigHarness(t)
	wantPrevious := func(image string) {
		t.Helper()
		for range 2 {
			unit, ok := b.cp.Previous(SourceFile, "f")
			if ok != (image != "") || ok && unit.Documents[0].Pod.Spec.Containers[0].Image != image {
				t.Fatalf("previous is %+v, want %q", unit, image)
			}
			if err := b.cp.Save(); err != nil {
				t.Fatal(err)
			}
			b.restart()
		}
	}
	ready := func(uids ...types.UID) {
		for _, uid := range uids {
			b.cp.RecordReady(uid)
		}
	}
	b.deliver(SourceFile, "f", "a 1\nb 1")
	ready("file-a-1")
	b.deliver(SourceFile, "f", "a 2\nb 1")
	wantPrevious("") // b never was
	ready("file-a-2", "file-b-1")
	b.deliver(SourceFile, "f", "a 3\nb 1")
	wantPrevious("2")
	b.deliver(SourceFile, "f", "a 4\nb 1")
	wantPrevious("2") // 3 never was
	b.deliver(SourceFile, "f", "a 4\nb 1\n")
	wantPrevious("2")
	ready("file-a-4") // b is as Ready as it was
	b.deliver(SourceFile, "f", "a 4\nb 1\n\n")
	wantPrevious("2") // the same pods in other bytes
	b.deliver(SourceFile, "f", "a 5\nb 1")
	wantPrevious("4")
}

func TestCheckpointBatchesReadyMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint.json")
		cp := openTestCheckpoint(t, path)
		script := ""
		for i := range 50 {
			script += fmt.Sprintf("p%d 1\n", i)
		}
		cp.accept(SourceFile, []Unit{scriptUnit("f", script, SourceFile)}, true)
		if err := cp.Save(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- cp.Run(ctx) }()
		for i := range 50 {
			cp.RecordReady(types.UID(fmt.Sprintf("file-p%d-1", i)))
		}
		synctest.Wait()
		if readyInFile(t, path) != 0 {
			t.Error("written immediately")
		}
		sleepInBubble(readyDelay)
		if got := readyInFile(t, path); got != 50 {
			t.Errorf("%d are written as ready", got)
		}
		cp.accept(SourceFile, []Unit{scriptUnit("f", script+"q 1", SourceFile)}, true)
		cp.RecordReady("file-q-1")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := readyInFile(t, path); got != 51 {
			t.Errorf("%d are written as ready at the end", got)
		}
	})
}

func readyInFile(t *testing.T, path string) int {
	t.Helper()
	record := openTestCheckpoint(t, path).state.Sources[SourceFile].Units["f"]
	return len(record.Ready)
}

// With a full disk pods keep running; the problem is logged once, and so is its
// end.
func TestCheckpointNotWritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "cp")
		path := filepath.Join(dir, "checkpoint.json")
		lines := &logLines{}
		cp, err := OpenCheckpoint(path, lines.log(), statefile.Disk{})
		if err != nil {
			t.Fatal(err)
		}
		// A file is where the directory should be.
		if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		config := NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile}, Checkpoint: cp, Log: lines.log()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- cp.Run(ctx) }()
		model := newPodModel(t)
		for i := range 3 {
			config.Deliver(Set{Source: SourceFile, Units: []Unit{scriptUnit("f", fmt.Sprintf("a %d fixed", i), SourceFile)}})
		}
		if model.drain(config); len(model.pods) != 1 {
			t.Errorf("updates are %q", model.log)
		}
		if len(lines.with("Failed to write manifest checkpoint")) != 1 {
			t.Errorf("logged %q", lines.lines)
		}
		if text := Faults(config.Faults()).Error(); !strings.Contains(text, "not a directory") ||
			Faults(config.Faults()).Fatal() {
			t.Errorf("faults are %s", text)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		sleepInBubble(readyDelay + saveRetry)
		if len(config.Faults()) > 0 || len(lines.with("Manifest checkpoint is writable again")) != 1 {
			t.Errorf("faults are %v, logged %q", config.Faults(), lines.lines)
		}
		if unit, ok := openTestCheckpoint(t, path).accepted(SourceFile, "f"); !ok ||
			unit.Documents[0].Pod.Spec.Containers[0].Image != "2" {
			t.Errorf("the file has %+v", unit)
		}
		cancel()
		<-ended
	})
}

func TestCheckpointOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(filepath.Join(file, "checkpoint.json"), quietLog(), statefile.Disk{}); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
	directory := t.TempDir()
	if cp := openTestCheckpoint(t, directory); !cp.wasLost(SourceFile) {
		t.Error("a directory was read")
	}
	if _, err := os.Stat(directory + statefile.SuffixDamaged); err != nil {
		t.Error(err)
	}
}
