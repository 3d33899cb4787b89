package logging

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBlockedLogIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // like a pipe that is full
		out := &Output{To: w}
		log := New(out, "json", false)
		if err := out.Check(); err != nil {
			t.Errorf("before the first message: %v", err)
		}
		go log.Info("one")
		time.Sleep(timeout)
		if err := out.Check(); err != nil {
			t.Errorf("after %v: %v", timeout, err)
		}
		time.Sleep(2 * time.Second)
		if err := out.Check(); err == nil || !strings.Contains(err.Error(), "blocked") ||
			!strings.Contains(err.Error(), "12s") {
			t.Errorf("a blocked log: %v", err)
		}
		if _, err := r.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := out.Check(); err != nil {
			t.Errorf("after the message: %v", err)
		}
		_ = r.Close()
		log.Info("two")
		if err := out.Check(); err == nil || !strings.Contains(err.Error(), "standard error") {
			t.Errorf("a log that fails: %v", err)
		}
	})
}
