package status

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/internal/unwritten"
)

func equal(a, b any) bool { return cmp.Equal(a, b) }

func full() Record {
	return Record{
		StartTime: time.Unix(1700000000, 0).UTC(), Phase: v1.PodFailed, Reason: "Evicted", Message: "low",
		RestartCounts: map[string]int32{"web": 3},
		Backoff:       map[string]cri.BackoffStep{"web": {Delay: 20 * time.Second, Updated: time.Unix(1700000100, 5).UTC()}},
		Ready:         map[string]ReadyRecord{"web": {ContainerID: "w1", Ready: true, Started: true}},
		Ends: map[string]v1.ContainerStateTerminated{"web": {
			ExitCode: 7, Reason: "Error", StartedAt: metav1.NewTime(time.Unix(1700000000, 0).UTC()),
			FinishedAt: metav1.NewTime(time.Unix(1700000001, 0).UTC()), ContainerID: "containerd://w1",
		}},
		Runs: 2,
	}
}

// testRecords are Records on a disk that counts.
type testRecords struct {
	*Records
	disk *statefiletest.Disk
}

// Save reports whether it wrote.
func (r testRecords) Save(uid types.UID, rec Record) (bool, error) {
	before := len(r.disk.Operations())
	err := r.Records.Save(uid, rec)
	return err == nil && len(r.disk.Operations()) > before, err
}

func openRecords(t *testing.T, dir string) (testRecords, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	disk := statefiletest.New(dir, statefiletest.Killed, 0)
	r, err := OpenRecords(dir, statefile.Disk{Operations: disk}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return testRecords{r, disk}, &log
}

func TestRecordSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	r, _ := openRecords(t, dir)
	if wrote, err := r.Save("u1", full()); err != nil || !wrote {
		t.Fatalf("Save = %v, %v", wrote, err)
	}
	info, err := os.Stat(filepath.Join(dir, "u1.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("file %v, %v, want mode 0600", info, err)
	}
	again, log := openRecords(t, dir)
	if d := cmp.Diff(full(), again.Load("u1")); d != "" {
		t.Errorf("(-saved +loaded):\n%s", d)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
	if uids, err := again.UIDs(); err != nil || len(uids) != 1 || uids[0] != "u1" {
		t.Errorf("UIDs = %v, %v", uids, err)
	}
	if err := again.Delete("u1"); err != nil {
		t.Error(err)
	}
	if err := again.Delete("u1"); err != nil {
		t.Errorf("second Delete: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// To reduce flash wear, an equal record is not written, also after a restart.
func TestEqualRecordIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	r, _ := openRecords(t, dir)
	if _, err := r.Save("u1", full()); err != nil {
		t.Fatal(err)
	}
	again, _ := openRecords(t, dir)
	again.Load("u1")
	for name, r := range map[string]testRecords{"same daemon": r, "after a restart": again} {
		if wrote, err := r.Save("u1", full()); wrote || err != nil {
			t.Errorf("%s: Save = %v, %v, want no write", name, wrote, err)
		}
	}
	changed := full()
	changed.RestartCounts["web"]++
	if wrote, err := again.Save("u1", changed); !wrote || err != nil {
		t.Errorf("Save = %v, %v, want a write", wrote, err)
	}
	if err := again.Delete("u1"); err != nil {
		t.Fatal(err)
	}
	if wrote, _ := again.Save("u1", changed); !wrote {
		t.Error("not written after it was deleted")
	}
}

func TestDamagedRecordCostsHistoryOnly(t *testing.T) {
	for name, content := range map[string]string{
		"empty":       "",
		"cut":         `{"version":1,"startTime":"2026`,
		"not json":    "\x00\x00\x00\x00",
		"wrong types": `{"version":1,"restartCounts":["x"]}`,
		"from later":  `{"version":99,"runs":1}`,
		"no version":  `{"runs":1}`,
		"huge":        `{"version":1,"message":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "u1.json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			r, log := openRecords(t, dir)
			if rec := r.Load("u1"); !equal(rec, Record{}) {
				t.Errorf("loaded %+v, want an empty record", rec)
			}
			if !strings.Contains(log.String(), "u1.json") {
				t.Errorf("no warning that names the file: %q", log)
			}
			if wrote, err := r.Save("u1", full()); !wrote || err != nil {
				t.Errorf("Save = %v, %v", wrote, err)
			}
			if rec := r.Load("u1"); !equal(rec, full()) {
				t.Errorf("loaded %+v", rec)
			}
		})
	}
}

func TestMissingRecordIsEmpty(t *testing.T) {
	r, log := openRecords(t, t.TempDir())
	if rec := r.Load("u1"); !equal(rec, Record{}) || log.Len() > 0 {
		t.Errorf("loaded %+v and logged %q", rec, log)
	}
}

func TestRemainsOfACutWriteAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "u1.json.tmp"), []byte(`{"ver`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _ := openRecords(t, dir)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if uids, err := r.UIDs(); err != nil || len(uids) != 0 {
		t.Errorf("UIDs = %v, %v", uids, err)
	}
}

func TestRecordsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	r, _ := openRecords(t, filepath.Join(dir, "pods"))
	for _, uid := range []string{"", "..", "../x", "a/b", ".hidden", "a\x00b"} {
		if _, err := r.Save(typesUID(uid), full()); err == nil {
			t.Errorf("saved under %q", uid)
		}
		if rec := r.Load(typesUID(uid)); !equal(rec, Record{}) {
			t.Errorf("loaded %q", uid)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("written outside: %v", left)
	}
}

// A write that cannot be completed keeps the old record and leaves no files
// behind.
func TestFailedWriteLeavesTheOldRecord(t *testing.T) {
	dir := t.TempDir()
	r, _ := openRecords(t, dir)
	if _, err := r.Save("u1", full()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "u1.json.tmp", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	changed := full()
	changed.Runs++
	if _, err := r.Save("u1", changed); err == nil || !strings.Contains(err.Error(), "u1.json") {
		t.Fatalf("Save = %v, want an error that names the file", err)
	}
	if next, _ := openRecords(t, dir); !equal(next.Load("u1"), full()) {
		t.Errorf("the next daemon loads %+v, want the old record", next.Load("u1"))
	}
	if err := os.RemoveAll(filepath.Join(dir, "u1.json.tmp")); err != nil {
		t.Fatal(err)
	}
	if wrote, err := r.Save("u1", changed); !wrote || err != nil {
		t.Errorf("Save = %v, %v: a failed write must be retried", wrote, err)
	}
}

// The published status continues after a restart of the daemon or the host.
func TestStatusContinuesAfterARestart(t *testing.T) {
	live := count(id(running("web"), "w4"), 3)
	cases := []struct {
		name     string
		pod      *v1.Pod
		before   cri.Container
		after    *cri.PodStatus
		phase    v1.PodPhase
		restarts int32
	}{
		{"daemon restarted", pod("Always"), live, observed(live), v1.PodRunning, 3},
		{"rebooted, dead containers kept", pod("Always"), live, observed(count(id(exited("web", 255), "w4"), 3)),
			v1.PodRunning, 3},
		{"rebooted, runtime wiped", pod("Always"), live, &cri.PodStatus{At: now}, v1.PodRunning, 4},
		{"finished, dead containers kept", pod("Never"), exited("web", 0), observed(exited("web", 0)), v1.PodSucceeded, 0},
		{"finished, runtime wiped", pod("Never"), exited("web", 0), &cri.PodStatus{At: now}, v1.PodSucceeded, 0},
		{"failed, runtime wiped", pod("Never"), exited("web", 1), &cri.PodStatus{At: now}, v1.PodFailed, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := Generate(Input{Pod: c.pod, Observed: observed(c.before), Now: earlier})
			rec := Record{}.Observe(&before)
			after := Generate(Input{Pod: c.pod, Observed: c.after, Record: rec, Now: now})
			if !after.StartTime.Equal(before.StartTime) {
				t.Errorf("start time %v, want %v", after.StartTime, before.StartTime)
			}
			if after.Phase != c.phase || after.ContainerStatuses[0].RestartCount != c.restarts {
				t.Errorf("%s with %d restarts, want %s with %d", after.Phase, after.ContainerStatuses[0].RestartCount, c.phase,
					c.restarts)
			}
			// Restarted again before anything was started: nothing
			// is counted twice.
			rec = rec.Observe(&after)
			again := Generate(Input{Pod: c.pod, Observed: c.after, Record: rec, Now: now})
			if again.ContainerStatuses[0].RestartCount != c.restarts {
				t.Errorf("%d restarts after another restart, want %d", again.ContainerStatuses[0].RestartCount, c.restarts)
			}
		})
	}
}

func TestNewRunKeepsTheCounts(t *testing.T) {
	old := full()
	rec := old.NewRun()
	if rec.Terminal() || rec.Reason != "" || rec.Runs != 3 || rec.RestartCounts["web"] != 3 || !rec.StartTime.IsZero() {
		t.Errorf("new run: %+v", rec)
	}
	if !equal(old, full()) {
		t.Error("the old record was modified")
	}
}

// A record that the disk did not take is written when the disk has recovered, unless the
// pod is forgotten by then.
func TestRecordsAreWrittenLater(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "records")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		files := unwritten.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = files.Run(ctx, func([]unwritten.File) {}) }()
		r := &Records{files: recordFormat.Dir(blocked, statefile.Disk{Unwritten: files}), log: slog.New(slog.DiscardHandler)}
		for _, uid := range []types.UID{"a", "b", "c"} {
			if err := r.Save(uid, full()); err == nil {
				t.Error("saved into a file")
			}
		}
		if len(files.List()) != 3 {
			t.Errorf("unwritten files: %v", files.List())
		}
		newer := full()
		newer.Message = "newer"
		_ = r.Save("b", newer)
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		if err := r.Delete("c"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if list := files.List(); len(list) != 0 {
			t.Errorf("unwritten files after the recovery: %v", list)
		}
		if got := r.Load("a"); !equal(got, full()) {
			t.Errorf("loaded %+v", got)
		}
		if got := r.Load("b"); got.Message != "newer" {
			t.Errorf("loaded %+v", got)
		}
		if uids, err := r.UIDs(); err != nil || len(uids) != 2 {
			t.Errorf("UIDs = %v, %v", uids, err)
		}
	})
}
