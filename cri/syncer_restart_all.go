package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// restartAll takes one step of the restart of all containers: it waits for the
// back-off of the container that triggered it, or kills what runs, or removes
// everything. The next Sync then starts the pod over.
func (t *transaction) restartAll(ctx context.Context) error {
	all := t.actions.RestartAll
	spec := specOf(t.Pod, all.Trigger.Name)
	if held := t.backoffFor(spec); held != nil {
		t.setWaiting(spec.Name, held)
		return nil
	}
	if len(t.actions.Kill) > 0 {
		return t.kill(ctx)
	}
	t.result.Acted = true
	for _, id := range all.Remove {
		c := t.Status.container(id)
		if id == all.Trigger.ID {
			// The back-off counts the restart before the instance is removed,
			// because nothing records it afterwards.
			t.backoff.started(t.Pod, spec, c, t.MaxRestartPeriod)
		}
		if err := t.runtime.RemoveContainer(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		t.expectations.remove(t.Pod.UID, id)
		t.keepLastLog(c)
	}
	return nil
}

// keepLastLog removes what a removed instance left on the host, except its log
// and the link to it: they are the only record of what happened before the
// restart. Older logs are removed, so that they do not accumulate.
func (t *transaction) keepLastLog(c *Container) {
	t.removeMessage(c)
	if c.State == StateCreated {
		return
	}
	pod := LogDirectory(t.config.logRoot, t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
	dir := filepath.Join(pod, c.Name)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		number, _, isLog := strings.Cut(entry.Name(), logSuffix)
		if n, err := strconv.Atoi(number); isLog && err == nil && n < c.RestartCount {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	links, _ := filepath.Glob(filepath.Join(t.logLinks, LogLink(t.Pod.Namespace, t.Pod.Name, c.Name, "*")))
	for _, link := range links {
		if _, err := os.Stat(link); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(link)
		}
	}
}
