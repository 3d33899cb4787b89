package event

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startRecorder starts a recorder on a file. stop stops it as SIGTERM does; a
// recorder that is not stopped behaves like that of a killed daemon.
func startRecorder(t *testing.T, file string) (r *Recorder, stop func()) {
	t.Helper()
	r = New(Config{Node: "node", File: file})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	return r, func() { cancel(); <-done }
}

func summary(r *Recorder) string {
	var got []string
	for _, e := range r.List() {
		got = append(got, fmt.Sprintf("%s/%s×%d", e.InvolvedObject.Kind, e.Reason, e.Count))
	}
	return strings.Join(got, " ")
}

func TestEventsContinueAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "events", "journal")
		begun := time.Now()
		r, stop := startRecorder(t, file)
		defer stop()
		r.Event(pod("u1"), "Normal", "Started", "m")
		r.Event(nil, "Normal", "Starting", "m")
		r.Event(pod("u1"), "Warning", "BackOff", "m")
		r.Event(pod("u1"), "Warning", "BackOff", "m")
		time.Sleep(time.Minute)
		before := r.List()

		// The first recorder is not stopped: it was killed.
		r, stop2 := startRecorder(t, file)
		defer stop2()
		if got, want := summary(r), "Pod/Started×1 Node/Starting×1 Pod/BackOff×2"; got != want {
			t.Fatalf("after the kill: %s, want %s", got, want)
		}
		r.Event(pod("u1"), "Normal", "Started", "m")
		r.Event(nil, "Normal", "Starting", "m")
		list := r.List()
		if got, want := summary(r), "Pod/BackOff×2 Pod/Started×2 Node/Starting×2"; got != want {
			t.Errorf("counts do not continue: %s, want %s", got, want)
		}
		if e := list[1]; !e.FirstTimestamp.Time.Equal(begun) || !e.LastTimestamp.Time.Equal(begun.Add(time.Minute)) ||
			e.Name != before[0].Name {
			t.Errorf("Started from %v to %v as %s, want %v to %v as %s", e.FirstTimestamp, e.LastTimestamp, e.Name, begun,
				begun.Add(time.Minute), before[0].Name)
		}
	})
}

func TestNamesStayUniqueWhenClockIsSetBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	var name string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1000 * time.Hour)
		r, stop := startRecorder(t, file)
		r.Event(pod("u1"), "Normal", "Started", "m")
		name = r.List()[0].Name
		stop()
	})
	synctest.Test(t, func(t *testing.T) { // the bubble's clock starts again
		r, stop := startRecorder(t, file)
		defer stop()
		r.Event(pod("u2"), "Normal", "Started", "m")
		list := r.List()
		if len(list) != 2 || list[0].Name != name || list[1].Name <= name {
			t.Errorf("names after the clock was set back: %v", list)
		}
	})
}

func TestWritesAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "journal")
		r, stop := startRecorder(t, file)
		defer stop()
		r.Event(pod("u1"), "Normal", "first", "m")
		time.Sleep(writeSoon + time.Millisecond)
		size := func() int64 {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		writes, last := 0, size()
		for i := range 100 { // an event each 0.1 s
			r.Event(pod("u1"), "Normal", fmt.Sprint(i), "m")
			time.Sleep(100 * time.Millisecond)
			if now := size(); now != last {
				writes, last = writes+1, now
			}
		}
		if most := int(10*time.Second/writeGap) + 1; writes == 0 || writes > most {
			t.Errorf("%d writes in 10 s, want 1 to %d", writes, most)
		}
		time.Sleep(2 * writeGap)
		last = size()
		info, _ := os.Stat(file)
		time.Sleep(time.Hour)
		if after, _ := os.Stat(file); size() != last || !after.ModTime().Equal(info.ModTime()) {
			t.Error("the file is written while nothing happens")
		}
	})
}

func TestDamagedLineIsSkipped(t *testing.T) {
	for name, damage := range map[string]string{
		"torn":       `{"kind":"Event","metadata":{"name":"x.1"},"reas`,
		"not JSON":   "\x00\x00\x00\x00\n",
		"other JSON": `{"a":1}` + "\n",
		"too long":   strings.Repeat("x", 3*maxJournalLine) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "journal")
				r, stop := startRecorder(t, file)
				r.Event(pod("u1"), "Normal", "a", "m")
				stop()
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					t.Fatal(err)
				}
				_, err = f.WriteString(damage)
				if err != nil || f.Close() != nil {
					t.Fatal(err)
				}
				r, stop = startRecorder(t, file)
				if got := summary(r); got != "Pod/a×1" {
					t.Errorf("read back %q", got)
				}
				r.Event(pod("u1"), "Normal", "b", "m")
				stop()
				r, stop = startRecorder(t, file)
				defer stop()
				if got := summary(r); got != "Pod/a×1 Pod/b×1" {
					t.Errorf("after the damage, read back %q", got)
				}
			})
		})
	}
}

func TestDirectoryAtJournalPathCostsOnlyHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "journal")
		if err := os.MkdirAll(filepath.Join(file, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r := New(Config{Node: "node", File: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.Run(ctx) }()
		for range 5 {
			r.Event(pod("u1"), "Normal", "a", "m")
			time.Sleep(5 * time.Minute)
		}
		if got := summary(r); got != "Pod/a×5" {
			t.Errorf("kept %q", got)
		}
		if n := strings.Count(log.String(), "keeping them in memory"); n != 1 {
			t.Errorf("the fault is logged %d times:\n%s", n, log.String())
		}
		// The path is usable again; the next retry writes.
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * writeRetry)
		cancel()
		<-done
		if got := summary(New(Config{Node: "node", File: file})); got != "Pod/a×5" {
			t.Errorf("after the fix the file holds %q", got)
		}
	})
}

func TestFileStaysWithinBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "journal")
		r, stop := startRecorder(t, file)
		most := int64(0)
		// The longest messages in the encoding that takes the most space.
		message := strings.Repeat("\x01", maxMessage-8)
		for i := range 60 {
			for o := range 50 {
				r.Event(pod(types.UID(fmt.Sprint("u", o))), "Normal", "a", fmt.Sprint(i, message))
			}
			time.Sleep(writeGap + time.Second)
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, info.Size())
		}
		stop()
		if most > maxJournal {
			t.Errorf("the file had %d bytes, more than %d", most, maxJournal)
		}
		list := New(Config{Node: "node", File: file}).List()
		if len(list) == 0 || !strings.HasPrefix(list[len(list)-1].Message, "59") {
			t.Errorf("the newest event is lost; %d are kept", len(list))
		}
	})
}

func TestOldEventsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "journal")
		r, stop := startRecorder(t, file)
		r.Event(pod("u1"), "Normal", "old", "m")
		time.Sleep(DefaultMaxAge - time.Hour)
		r.Event(pod("u1"), "Normal", "new", "m")
		stop()
		time.Sleep(2 * time.Hour)
		if got := summary(r); got != "Pod/new×1" {
			t.Errorf("in memory: %q", got)
		}
		if got := summary(New(Config{Node: "node", File: file})); got != "Pod/new×1" {
			t.Errorf("after a restart: %q", got)
		}
	})
}

func TestOnePodDoesNotDisplaceEventsOfOthers(t *testing.T) {
	r := New(Config{Node: "node"})
	r.Event(pod("quiet"), "Normal", "Started", "m")
	for i := range 5000 {
		r.Event(pod("noisy"), "Normal", "Pulled", fmt.Sprintf("in %d ms", i))
	}
	list := r.List()
	if len(list) != 1+maxPerObject || list[0].Reason != "Started" || list[len(list)-1].Message != "in 4999 ms" {
		t.Errorf("%d events, from %s to %q", len(list), list[0].Reason, list[len(list)-1].Message)
	}
	if len(r.perObject) != 2 || len(r.entries) != len(list) {
		t.Errorf("%d objects, %d entries behind %d events", len(r.perObject), len(r.entries), len(list))
	}
}

func BenchmarkRepeatedEvent(b *testing.B) {
	r := New(Config{Node: "node"})
	for i := range 1000 {
		r.Event(pod(types.UID(fmt.Sprint(i))), v1.EventTypeNormal, "Started", "Started container web")
	}
	for b.Loop() {
		r.Event(pod("7"), v1.EventTypeNormal, "Started", "Started container web")
	}
}
