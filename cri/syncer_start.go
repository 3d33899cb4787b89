package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// startContainers starts the planned containers in the order of the spec, each
// with its postStart hook before the next, and runs the hooks that running
// containers still lack. Missing images are pulled in parallel before.
func (t *transaction) startContainers(ctx context.Context) error {
	var errs []error
	due, running := t.containersToStart()
	pulls := t.pullImages(ctx, due, running)
	for _, c := range due {
		var err error
		if id := running[c.Name]; id != "" {
			err = t.postStart(ctx, c, id)
		} else {
			err = t.start(ctx, c, pulls[imageOf(c)])
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err == nil {
			t.startBackoff.succeeded(t.Pod.UID, c.Name)
			continue
		}
		var w *waitError
		if !errors.As(err, &w) {
			errs = append(errs, err)
			continue
		}
		t.setWaiting(c.Name, w)
		if w.cause != nil {
			errs = append(errs, fmt.Errorf("failed to start container %q: %w", c.Name, w))
		}
	}
	pulls.wait()
	return errors.Join(errs...)
}

// containersToStart returns, in the order of the spec, the containers to start
// and those of which only the postStart hook must run; running has the instances
// of the latter. Containers that wait are left out.
func (t *transaction) containersToStart() (due []*v1.Container, running map[string]string) {
	running = map[string]string{}
	add := func(list []v1.Container, start []int) {
		for i := range list {
			c := &list[i]
			if slices.Contains(start, i) {
				if why, withheld := t.Held[c.Name]; withheld {
					t.setWaiting(c.Name, &waitError{Waiting: why})
					continue
				}
				if held := t.backoffFor(c); held != nil {
					t.setWaiting(c.Name, held)
					continue
				}
				due = append(due, c)
			} else if instance := t.missingPostStart(c); instance != nil {
				running[c.Name] = instance.ID
				due = append(due, c)
			}
		}
	}
	add(Ephemeral(t.Pod), t.actions.StartEphemeral)
	add(t.Pod.Spec.InitContainers, t.actions.StartInit)
	add(t.Pod.Spec.Containers, t.actions.Start)
	return due, running
}

// backoffFor returns the back-off of a container, nil if it may start.
func (t *transaction) backoffFor(c *v1.Container) *waitError {
	if held := t.startBackoff.wait(t.Pod, c.Name); held != nil {
		return held
	}
	left, delay := t.backoff.wait(t.Pod, c, newestExited(t.Status, c.Name), t.MaxRestartPeriod)
	if left <= 0 {
		return nil
	}
	pod := fmt.Sprintf("%s_%s(%s)", t.Pod.Name, t.Pod.Namespace, t.Pod.UID)
	t.events.Event(t.Pod, v1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, pod))
	return &waitError{
		Waiting: Waiting{reasonCrashLoop,
			fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, c.Name, pod)},
		retryAfter: left,
	}
}

// newestExited returns the newest instance of a container that has exited, or
// nil.
func newestExited(s *PodStatus, name string) *Container {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State == StateExited {
			return c
		}
	}
	return nil
}

// imageKey identifies an image requirement within a pod.
type imageKey struct {
	image  string
	policy v1.PullPolicy
}

func imageOf(c *v1.Container) imageKey { return imageKey{c.Image, c.ImagePullPolicy} }

// imagePull is an image that is being pulled or looked up.
type imagePull struct {
	done chan struct{}
	ref  string
	err  error
}

type imagePulls map[imageKey]*imagePull

// pullImages starts to ensure the images of containers, each once. Created and
// running containers have theirs.
func (t *transaction) pullImages(ctx context.Context, list []*v1.Container, running map[string]string) imagePulls {
	pulls := imagePulls{}
	for _, c := range list {
		key := imageOf(c)
		if running[c.Name] != "" || t.actions.Created[c.Name] != "" || pulls[key] != nil {
			continue
		}
		p := &imagePull{done: make(chan struct{})}
		pulls[key] = p
		go func() {
			defer close(p.done)
			p.ref, p.err = t.images.ensure(ctx, t.Pod, key.image, key.policy, t.Credentials)
		}()
	}
	return pulls
}

// wait returns when all pulls have ended.
func (p imagePulls) wait() {
	for _, pull := range p {
		<-pull.done
	}
}

// start creates and starts one container, or starts the instance that was created
// and never started.
func (t *transaction) start(ctx context.Context, c *v1.Container, image *imagePull) error {
	if id := t.actions.Created[c.Name]; id != "" {
		return t.startCreated(ctx, c, id)
	}
	imageReady := t.measure(StepImage)
	<-image.done
	imageReady()
	if image.err != nil {
		return image.err
	}
	id, number, err := t.create(ctx, c, image.ref)
	if err != nil {
		return err
	}
	undo := t.countStart(c)
	err = t.startCreatedInstance(ctx, c, id, number)
	if !isNoSandboxProcess(err) {
		return err
	}
	undo()
	// Another instance, at once: nothing of the pod is at fault.
	if id, number, err = t.create(ctx, c, image.ref); err != nil {
		return err
	}
	undo = t.countStart(c)
	err = t.startCreatedInstance(ctx, c, id, number)
	if isNoSandboxProcess(err) {
		undo()
		return t.startFailed(ctx, c, reasonRun, err)
	}
	return err
}

// countStart counts a start for the back-off, before the call, because the reply may
// be lost. undo is for an instance that counts for nothing.
func (t *transaction) countStart(c *v1.Container) (undo func()) {
	return t.backoff.started(t.Pod, c, newestExited(t.Status, c.Name), t.MaxRestartPeriod)
}

// create creates a new instance of a container.
func (t *transaction) create(ctx context.Context, c *v1.Container, imageRef string) (id string, number int, err error) {
	defer t.measure(StepCreate)()
	in := containerInput{imageRef: imageRef, users: t.Sandbox.Users, assigned: t.Assigned}
	logDir := filepath.Join(t.sandboxConfig.LogDirectory, c.Name)
	if in.restartCount, err = t.restartCount(c.Name, logDir); err == nil {
		err = os.MkdirAll(logDir, logDirMode)
	}
	if err == nil {
		in.user, err = t.resolveUser(ctx, c, imageRef)
	}
	if err == nil && t.ResolveInputs != nil {
		in.Inputs, err = t.ResolveInputs(ctx, c, t.podIPs)
	}
	if err == nil {
		err = t.checkCDI(ctx, in.CDIDevices)
	}
	if err == nil {
		in.command, in.args, err = expandCommand(c, in.Env)
	}
	if errors.Is(err, ErrAwaited) && ctx.Err() == nil {
		t.recordFailure(c, err)
		return "", 0, &waitError{Waiting: Waiting{reasonContainerConfig, err.Error()}}
	}
	if err != nil {
		in.discard()
		return "", 0, t.startFailed(ctx, c, reasonContainerConfig, err)
	}
	if err := t.resolveMounts(ctx, in.Mounts); err != nil {
		in.discard()
		return "", 0, err
	}
	if target := targetOf(t.Pod, c.Name); target != "" {
		if in.target = t.runningID(target); in.target == "" {
			in.discard()
			return "", 0, t.startFailed(ctx, c, reasonContainerConfig,
				fmt.Errorf("container %q, its target for processes, is not running", target))
		}
	}
	leave, err := t.enterStart(ctx, stageFinish)
	if err != nil {
		in.discard()
		return "", 0, err
	}
	defer leave()
	t.result.Acted = true
	config := t.config.container(t.Pod, c, in)
	id, err = t.runtime.CreateContainer(ctx, t.actions.SandboxID, config, t.sandboxConfig)
	if errors.Is(err, ErrExists) {
		if in.attempt = t.freeContainerAttempt(ctx, c.Name); in.attempt > in.restartCount {
			config = t.config.container(t.Pod, c, in)
			id, err = t.runtime.CreateContainer(ctx, t.actions.SandboxID, config, t.sandboxConfig)
		}
	}
	if err != nil {
		if !uncertain(err) {
			in.discard()
		}
		return "", 0, t.startFailed(ctx, c, reasonCreate, err)
	}
	if t.Assigned != nil {
		t.Assigned.Created(id, config.Linux.Resources.CpusetCpus)
	}
	t.expectations.expect(t.Pod.UID, c.Name, id)
	// The event names the container in its text; the kubelet's does so in a field
	// that only the API server's events have.
	t.events.Event(t.Pod, v1.EventTypeNormal, "Created", "Created container "+c.Name)
	return id, in.restartCount, nil
}

// runningID returns the ID of a container's running instance, empty if none runs.
func (t *transaction) runningID(name string) string {
	for i := range t.Status.Containers {
		if c := &t.Status.Containers[i]; c.Name == name && c.State == StateRunning && c.SandboxID == t.actions.SandboxID {
			return c.ID
		}
	}
	return ""
}

// discard removes what was created only for an instance that will not exist; no
// list will ever name it.
func (in *Inputs) discard() {
	if in.TerminationMessageHost != "" {
		_ = os.Remove(in.TerminationMessageHost)
	}
}

// restartCount returns the restart count of a container's next instance: one more
// than the highest that is known.
func (t *transaction) restartCount(name, logDir string) (int, error) {
	next := -1
	for i := range t.Status.Containers {
		c := &t.Status.Containers[i]
		// An instance that was never started has been removed and did not count.
		if c.Name == name && c.State != StateCreated {
			next = max(next, c.RestartCount+1)
		}
	}
	if next < 0 {
		var err error
		if next, err = nextLogNumber(logDir); err != nil {
			return 0, fmt.Errorf("failed to count its logs: %w", err)
		}
	}
	return max(next, t.MinRestartCounts[name]), nil
}

// startCreated starts a container that an earlier Sync, or an earlier daemon,
// created from the desired definition. If it cannot be started it is removed, so
// that the next Sync creates another one; first its state is checked, because the
// start may have succeeded.
func (t *transaction) startCreated(ctx context.Context, c *v1.Container, id string) error {
	number := 0
	if instance := t.Status.container(id); instance != nil {
		number = instance.RestartCount
	}
	t.expectations.expect(t.Pod.UID, c.Name, id)
	undo := t.countStart(c)
	startErr := t.startCreatedInstance(ctx, c, id, number)
	if isNoSandboxProcess(startErr) {
		undo()
		return t.startFailed(ctx, c, reasonRun, startErr)
	}
	if startErr == nil || uncertain(startErr) {
		return startErr
	}
	status, err := t.runtime.PodStatus(ctx, t.Pod.UID)
	if err != nil {
		return startErr
	}
	if instance := status.container(id); instance != nil && instance.State == StateCreated {
		if err := t.runtime.RemoveContainer(ctx, id); err == nil {
			t.expectations.remove(t.Pod.UID, id)
		}
	}
	return startErr
}

// uncertain reports whether a failed call may have taken effect.
func uncertain(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) || errors.Is(err, context.Canceled)
}

// startCreatedInstance starts a created container that has the given restart
// count, links its log and runs its postStart hook. If it returns a
// noSandboxProcessError, the container has been removed and no failure is recorded.
func (t *transaction) startCreatedInstance(ctx context.Context, c *v1.Container, id string, number int) error {
	t.result.Acted = true
	started := t.measure(StepStart)
	leave, err := t.enterStart(ctx, stageFinish)
	if err != nil {
		return err
	}
	err = t.runtime.StartContainer(ctx, id)
	leave()
	started()
	if err != nil && t.removeWithoutSandboxProcess(ctx, c, id, number, err) {
		return noSandboxProcessError{err}
	}
	if err != nil {
		return t.startFailed(ctx, c, reasonRun, err)
	}
	t.started(t.kindOf(c), "")
	t.events.Event(t.Pod, v1.EventTypeNormal, "Started", "Started container "+c.Name)
	link := LogLink(t.Pod.Namespace, t.Pod.Name, c.Name, id)
	if err := linkLog(t.logLinks, link, filepath.Join(t.sandboxConfig.LogDirectory, LogPath(c.Name, number))); err != nil {
		t.log.Warn("Failed to link container log", "pod", t.Pod.Namespace+"/"+t.Pod.Name, "container", c.Name, "err", err)
	}
	return t.postStart(ctx, c, id)
}

// startFailed records that a container could not be created or started.
func (t *transaction) startFailed(ctx context.Context, c *v1.Container, reason string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	t.started(t.kindOf(c), reason)
	t.recordFailure(c, err)
	why := Waiting{reason, detail(err)}
	t.startBackoff.failed(t.Pod, c.Name, why)
	return &waitError{Waiting: why, cause: err}
}

func (t *transaction) recordFailure(c *v1.Container, err error) {
	t.events.Event(t.Pod, v1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %s (container %s)", detail(err), c.Name))
}

// ContainerKind is the kind of a container, in the kubelet's words.
type ContainerKind string

// The kinds of containers.
const (
	KindContainer     ContainerKind = "container"
	KindInitContainer ContainerKind = "init_container"
	KindEphemeral     ContainerKind = "ephemeral_container"
)

func (t *transaction) kindOf(c *v1.Container) ContainerKind {
	switch {
	case isInit(t.Pod, c.Name):
		return KindInitContainer
	case isEphemeral(t.Pod, c.Name):
		return KindEphemeral
	}
	return KindContainer
}
