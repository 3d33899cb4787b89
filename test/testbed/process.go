package testbed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// process is a program that the test bed started in its own session.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // valid once ended is closed
}

// start runs cmd with its output appended to the file log.
func start(cmd *exec.Cmd, log string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Pid is the process ID.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal. It does nothing if the process has ended.
func (p *process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill kills the process and waits until it has ended.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// tail returns the end of a log, for an error message.
func tail(log string) []byte {
	data, err := os.ReadFile(log)
	if err != nil {
		return []byte(err.Error())
	}
	const keep = 4096
	if len(data) > keep {
		data = data[len(data)-keep:]
	}
	return bytes.TrimSpace(data)
}
