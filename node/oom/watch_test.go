package oom

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

type reads []any // records, and errors

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	next := (*r)[0]
	*r = (*r)[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

// What was overwritten before it was read ends nothing, and what was half read
// is not made part of another kill.
func TestReadGoesOnAfterALoss(t *testing.T) {
	var got []Kill
	w := New(Config{})
	const verdict = "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=x,pid=5,uid=0\n"
	const victim = "3,2,1,-;Killed process 5 (x) total-vm:1kB, anon-rss:1kB\n"
	err := w.read(&reads{verdict, unix.EINTR, victim, verdict, unix.EPIPE, victim},
		func(k Kill, _, _ time.Duration) { got = append(got, k) })
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if len(got) != 2 || got[0].Limit != "/a" || got[1].Limit != Machine {
		t.Errorf("got %+v", got)
	}
}

// A host on which the kernel's log cannot be read gets one warning.
func TestWatcherWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := New(Config{File: filepath.Join(t.TempDir(), "kmsg"), Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings:\n%s", n, &log)
		}
		select {
		case err := <-ended:
			t.Errorf("it ended: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// The kernel's own log can be waited for, and the waiting ends with the context.
func TestWatcherOnThisHost(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(Config{}).Run(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
