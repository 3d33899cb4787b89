// Command agent runs in the machine of the machine tests. It reads commands from a virtio port
// and runs them. The tests put it into the initial ramdisk, so that the root is a plain Debian.
// It runs a command named "agent" itself, without a process: the tests wait with those, and each
// process costs the emulated processor.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/machine/wire"
)

func main() {
	fmt.Fprintln(os.Stderr, "agent:", serve())
	os.Exit(1)
}

// runBuiltin runs a command of the agent.
func runBuiltin(out io.Writer, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "marks":
		return printMarks(out, "/proc")
	case len(args) == 3 && args[0] == "read":
		return readMarked(out, "/proc", args[1], args[2])
	case len(args) == 3 && args[0] == "get":
		return get(out, args[1], args[2])
	}
	return fmt.Errorf("unknown command %q", args)
}

// serve runs the commands that the virtio port delivers, until that fails.
func serve() error {
	port, err := openPort()
	if err != nil {
		return err
	}
	a := &agent{port: port, commands: map[uint32]*command{}}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	a.send(wire.Frame{Kind: wire.Hello, Data: boot})
	for {
		f, err := wire.Read(port)
		if err != nil {
			return err
		}
		a.handle(f)
	}
}

// openPort opens the virtio port, which udev may not have named yet.
func openPort() (*os.File, error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, name := range names {
			if text, _ := os.ReadFile(name); strings.TrimSpace(string(text)) == wire.PortName {
				// Not through the poller of the runtime: the port reports a hangup while the
				// other side is not connected.
				fd, err := syscall.Open("/dev/"+filepath.Base(filepath.Dir(name)), syscall.O_RDWR|syscall.O_CLOEXEC, 0)
				if err == nil {
					return os.NewFile(uintptr(fd), wire.PortName), nil
				}
			}
		}
	}
	return nil, errors.New("no virtio port " + wire.PortName)
}

type agent struct {
	port    io.Writer
	writing sync.Mutex

	mu       sync.Mutex
	commands map[uint32]*command
}

type command struct {
	stdin   io.WriteCloser // nil without input
	process *os.Process
}

func (a *agent) send(f wire.Frame) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := wire.Write(a.port, f); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func (a *agent) handle(f wire.Frame) {
	a.mu.Lock()
	c := a.commands[f.ID]
	a.mu.Unlock()
	switch {
	case f.Kind == wire.Start:
		a.start(f)
	case c == nil: // it has ended
	case f.Kind == wire.Stdin && c.stdin != nil:
		if len(f.Data) == 0 {
			_ = c.stdin.Close()
		} else {
			_, _ = c.stdin.Write(f.Data) // fails when the command has ended, which Exit reports
		}
	case f.Kind == wire.Kill:
		_ = syscall.Kill(-c.process.Pid, syscall.SIGKILL)
	}
}

// start starts a command in a session of its own.
func (a *agent) start(f wire.Frame) {
	exit := func(s wire.ExitStatus) {
		data, _ := json.Marshal(s)
		a.send(wire.Frame{ID: f.ID, Kind: wire.Exit, Data: data})
	}
	var want wire.Command
	if err := json.Unmarshal(f.Data, &want); err != nil || len(want.Args) == 0 {
		exit(wire.ExitStatus{Code: -1, Err: fmt.Sprintf("bad command %q: %v", f.Data, err)})
		return
	}
	if want.Args[0] == wire.Builtin {
		go func() {
			status := wire.ExitStatus{}
			if err := runBuiltin(&output{a, wire.Frame{ID: f.ID, Kind: wire.Stdout}}, want.Args[1:]); err != nil {
				fmt.Fprintln(&output{a, wire.Frame{ID: f.ID, Kind: wire.Stderr}}, err)
				status.Code = 1
			}
			exit(status)
		}()
		return
	}
	cmd := exec.Command(want.Args[0], want.Args[1:]...)
	cmd.Dir = "/root"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout = &output{a, wire.Frame{ID: f.ID, Kind: wire.Stdout}}
	cmd.Stderr = &output{a, wire.Frame{ID: f.ID, Kind: wire.Stderr}}
	// A child in the background keeps the output open; the command has still ended.
	cmd.WaitDelay = time.Second
	c := &command{}
	var err error
	if want.Input {
		c.stdin, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		exit(wire.ExitStatus{Code: -1, Err: err.Error()})
		return
	}
	c.process = cmd.Process
	a.mu.Lock()
	a.commands[f.ID] = c
	a.mu.Unlock()
	go func() {
		_ = cmd.Wait() // the status reports how it ended
		a.mu.Lock()
		delete(a.commands, f.ID)
		a.mu.Unlock()
		status := wire.ExitStatus{Code: cmd.ProcessState.ExitCode()}
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			status.Code = 128 + int(w.Signal())
		}
		exit(status)
	}()
}

// output sends what a command writes.
type output struct {
	agent *agent
	frame wire.Frame
}

func (o *output) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), wire.MaxData)
		f := o.frame
		f.Data = rest[:n]
		o.agent.send(f)
		rest = rest[n:]
	}
	return len(p), nil
}
