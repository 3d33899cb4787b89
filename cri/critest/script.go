package critest

import (
	"context"
	"os"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

// Behaviour is what the processes of a container do. The zero value runs forever
// and exits with 0 as soon as it is signaled.
type Behaviour struct {
	// ExitAtOnce ends it before StartContainer responds, RunFor after this
	// time, both with ExitCode.
	ExitAtOnce bool
	RunFor     time.Duration
	ExitCode   int32
	// StopAfter is how long it takes from SIGTERM until it exits with
	// TermCode. IgnoreTerm leaves it to SIGKILL, which is exit code 137.
	StopAfter  time.Duration
	TermCode   int32
	IgnoreTerm bool
	// StartError makes StartContainer fail, which leaves an exited container and its
	// log. FailedStarts is how many starts fail; 0 is all.
	StartError   string
	FailedStarts int
}

// ExecFunc serves an ExecSync.
type ExecFunc func(ctx context.Context, c Container, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
	error)

// script has the behaviour of containers.
type script struct {
	memory     map[string]uint64 // working sets by container name
	behaviours map[string]Behaviour
	exec       ExecFunc
	logs       bool
}

func newScript() script { return script{behaviours: map[string]Behaviour{}} }

// Behave sets the behaviour of containers of this name from their next start or
// stop. The name is a container's, or POD/CONTAINER with the pod's name as the
// runtime has it, which takes precedence, or "*" for all others.
func (f *Fake) Behave(name string, b Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script.behaviours[name] = b
}

// OnExec serves ExecSync; by default every command exits with 0.
func (f *Fake) OnExec(exec ExecFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script.exec = exec
}

// WriteLogs makes StartContainer create the log file that the configs name, as
// containerd does. As there, the directory must exist.
func (f *Fake) WriteLogs() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script.logs = true
}

// behaviourOf is the behaviour behaviourOf a container. The fake's lock is held.
func (s *script) behaviourOf(c *container) Behaviour {
	_, b := s.find(c)
	return b
}

func (s *script) find(c *container) (string, Behaviour) {
	pod := c.sandbox.config.GetMetadata().GetName()
	for _, name := range []string{pod + "/" + c.containerName(), c.containerName(), "*"} {
		if b, ok := s.behaviours[name]; ok {
			return name, b
		}
	}
	return "", Behaviour{}
}

// startFailed counts a start that failed. The fake's lock is held.
func (s *script) startFailed(c *container) {
	name, b := s.find(c)
	if b.FailedStarts == 0 {
		return
	}
	if b.FailedStarts--; b.FailedStarts == 0 {
		b.StartError = ""
	}
	s.behaviours[name] = b
}

func (s *script) openLog(c *container) error {
	path := c.logPath()
	if !s.logs || path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}

// End is how a test ends a container.
type End struct {
	Code int32
	// Reason and Message are what the runtime reports; an empty Reason goes by
	// the code (Completed, Error).
	Reason, Message string
	// LastWords is what the container leaves in its termination message file.
	LastWords string
}

// Exit ends the running instances of the container with this name, or
// POD/CONTAINER, and returns how many there were.
func (f *Fake) Exit(name string, code int32) int { return f.End(name, End{Code: code}) }

// Kill ends them as SIGKILL does.
func (f *Fake) Kill(name string) int { return f.End(name, End{Code: 137}) }

// End ends them in any way.
func (f *Fake) End(name string, end End) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.named(name) {
		if !c.running() {
			continue
		}
		n++
		if path := c.config.GetAnnotations()[cri.AnnotationTerminationMessageHost]; path != "" && end.LastWords != "" {
			// Where it cannot be written the test sees the message missing.
			_ = os.WriteFile(path, []byte(end.LastWords), 0o666)
		}
		f.exit(c, ending{end.Code, end.Reason, end.Message})
	}
	return n
}

// Lose puts the running instances into the unknown state, which containerd
// reports for a container whose shim it lost.
func (f *Fake) Lose(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.named(name) {
		if c.running() {
			f.setState(c, runtimeapi.ContainerState_CONTAINER_UNKNOWN)
			n++
		}
	}
	return n
}

// KillSandboxes makes the ready sandboxes of the pod with this name not ready, as
// when the pause process dies. Containers keep running, as in containerd.
func (f *Fake) KillSandboxes(pod string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, b := range f.sandboxes {
		if b.ready && b.config.GetMetadata().GetName() == pod {
			f.setReady(b, false)
			f.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, b.id, b)
			n++
		}
	}
	return n
}

// Reboot ends everything that runs as a reboot does: no event is sent, and what
// ran has exited with 255 and the reason "Unknown".
func (f *Fake) Reboot() {
	f.Disconnect()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.muted = true
	defer func() { f.events.muted = false }()
	for _, c := range f.containers {
		if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
			f.exit(c, ending{code: 255, reason: "Unknown"})
		}
	}
	for _, b := range f.sandboxes {
		b.ips = nil
		f.setReady(b, false)
	}
}

// named returns the containers with a name or POD/CONTAINER. The lock is held.
func (f *Fake) named(name string) []*container {
	var named []*container
	for _, c := range f.containers {
		if c.containerName() == name || c.sandbox.config.GetMetadata().GetName()+"/"+c.containerName() == name {
			named = append(named, c)
		}
	}
	return named
}
