package netns

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f in the network namespace of a file such as /proc/PID/ns/net, and returns when f has
// returned. It returns an error of the system, and does not run f, if the namespace cannot be
// entered. Goroutines that f starts run in the namespace of this process. Sockets that f opens
// stay in the other one.
func Do(namespace string, f func()) error {
	done := make(chan error, 1)
	go onThreadOfItsOwn(func() { done <- enter(namespace, f) })
	return <-done
}

// onThreadOfItsOwn runs f on a thread that ends with this goroutine, because it is never
// unlocked. The main thread does not end: it would stay as f leaves it for the life of the
// process, so another one is used.
func onThreadOfItsOwn(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { // not on this thread, which is locked
		defer close(done)
		onThreadOfItsOwn(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

func enter(namespace string, f func()) error {
	file, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	f()
	return nil
}
