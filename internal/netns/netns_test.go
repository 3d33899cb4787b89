package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// init keeps the main goroutine on the main thread, as Go starts it.
func init() { runtime.LockOSThread() }

// onMain is what the main goroutine does next.
var onMain = make(chan func())

func TestMain(m *testing.M) {
	code := make(chan int)
	go func() { code <- m.Run() }()
	for {
		select {
		case f := <-onMain:
			f()
		case c := <-code:
			os.Exit(c)
		}
	}
}

// otherNamespace returns the file of a new network namespace, and its name as in readlink.
func otherNamespace(t *testing.T) (file, name string) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	file = fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	return file, namespaceOf(t, file)
}

func namespaceOf(t *testing.T, file string) string {
	t.Helper()
	name, err := os.Readlink(file)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDoRunsInTheNamespace(t *testing.T) {
	file, want := otherNamespace(t)
	own := namespaceOf(t, "/proc/thread-self/ns/net")
	got := ""
	if err := Do(file, func() { got = namespaceOf(t, "/proc/thread-self/ns/net") }); err != nil {
		t.Fatal(err)
	}
	if got != want || got == own {
		t.Errorf("the function ran in %s, want %s; this process is in %s", got, want, own)
	}
	if now := namespaceOf(t, "/proc/self/ns/net"); now != own {
		t.Errorf("the process is in %s afterwards, was in %s", now, own)
	}
}

// A goroutine that happens to run on the main thread must not leave it in another namespace:
// the thread lives as long as the process, and /proc/net is the main thread's.
func TestTheMainThreadStaysInItsNamespace(t *testing.T) {
	file, want := otherNamespace(t)
	own := namespaceOf(t, "/proc/self/ns/net")
	var thread int
	var got string
	var err error
	done := make(chan struct{})
	onMain <- func() {
		defer close(done)
		onThreadOfItsOwn(func() {
			thread = syscall.Gettid()
			err = enter(file, func() { got, _ = os.Readlink("/proc/thread-self/ns/net") })
		})
	}
	<-done
	if err != nil || got != want {
		t.Errorf("the function ran in %s, want %s: %v", got, want, err)
	}
	if thread == os.Getpid() {
		t.Error("the function ran on the main thread")
	}
	if now := namespaceOf(t, "/proc/self/ns/net"); now != own {
		t.Errorf("the process is in %s afterwards, was in %s", now, own)
	}
}

func TestNoNamespace(t *testing.T) {
	err := Do(t.TempDir()+"/net", func() { t.Error("the function ran") })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	if err := Do("/proc/self/ns/uts", func() { t.Error("the function ran") }); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the error for another kind of namespace is %v", err)
	}
}
