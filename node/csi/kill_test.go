package csi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// killVolumes are the volumes of the kill tests: one that two pods share, and an inline one.
func killVolumes() []*csivolume.Volume {
	inline := volumeOf("a.example.com", "inline", "one")
	inline.Name, inline.Ephemeral = "inline", true
	return []*csivolume.Volume{volumeOf("a.example.com", "shared", "one"), volumeOf("a.example.com", "shared", "two"),
		inline}
}

// life publishes the volumes and ends their use. It returns true if the manager was killed.
func (h *harness) life() (dead bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
			dead = true
		}
	}()
	for _, v := range killVolumes() {
		if _, err := h.Publish(h.t.Context(), v); err != nil {
			return h.isDead(err)
		}
	}
	for _, uid := range []types.UID{"one", "two"} {
		if err := h.Unpublish(h.t.Context(), uid); err != nil {
			return h.isDead(err)
		}
	}
	return false
}

func (h *harness) isDead(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dead {
		h.t.Error(err)
	}
	return h.dead
}

// endAll ends the use of all volumes, as the cleanup of orphans does.
func (h *harness) endAll() {
	h.t.Helper()
	uids, err := h.Pods()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, uid := range uids {
		if err := h.Unpublish(context.Background(), uid); err != nil {
			h.t.Error(err)
		}
	}
}

// What a driver is asked to do is on the disk before, so that podstead can be killed at each write and
// before and after each call: the pods get their volumes after it, or nothing of these is left if the pods
// are gone. The same after a reboot, with the driver and without.
func TestKilledAtEachPoint(t *testing.T) {
	const driver = "a.example.com"
	resume := func(h *harness) {
		h.register(driver)
		for _, v := range killVolumes() {
			h.mustPublish(v)
		}
		h.endAll()
	}
	reboot := func(h *harness) {
		h.boot = "second"
		clear(h.mounted)
		h.start()
	}
	for name, after := range map[string]func(h *harness){
		"the pods go on":                       resume,
		"the pods are gone":                    func(h *harness) { h.register(driver); h.endAll() },
		"reboot":                               func(h *harness) { reboot(h); resume(h) },
		"reboot, the pods are gone":            func(h *harness) { reboot(h); h.register(driver); h.endAll() },
		"reboot, pods and the driver are gone": func(h *harness) { reboot(h); h.endAll() },
	} {
		t.Run(name, func(t *testing.T) {
			kills := 0
			for at := 1; ; at++ {
				h := newHarness(t)
				h.register(driver)
				h.killAt = at
				if !h.life() {
					h.mustBeClean()
					break
				}
				kills++
				h.start()
				after(h)
				h.mustBeClean()
				if t.Failed() {
					t.Fatalf("killed at point %d", at)
				}
			}
			// 3 volumes: records, calls before and after, and their ends.
			if kills < 25 {
				t.Errorf("killed at only %d points", kills)
			}
		})
	}
}

// A state that cannot be written keeps a driver from being called, and does not keep a volume from being
// unpublished.
func TestStateThatCannotBeWritten(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	h.full = true
	_, err := h.Publish(t.Context(), volumeOf("a.example.com", "v", "one"))
	mustContain(t, err, "failed to record the use of a CSI volume", "no space left")
	if calls := h.called(); calls != "" {
		t.Errorf("called: %s", calls)
	}
	h.full = false
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.full = true
	h.mustUnpublish("one")
	if calls := h.called(); calls != "Stage v, Publish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", calls)
	}
	// What was not written is written again, and is a repetition until then.
	h.full = false
	h.start()
	h.register("a.example.com")
	h.endAll()
	h.mustBeClean()
}

// Pods use many volumes at once, also the same one.
func TestManyPodsAtOnce(t *testing.T) {
	h := newHarness(t)
	h.options.LockTimeout = time.Hour // a loaded host needs its time for all pods of a volume
	h.register("a.example.com")
	done := make(chan error)
	const pods = 24
	for i := range pods {
		go func() {
			v := volumeOf("a.example.com", fmt.Sprintf("v%d", i%3), fmt.Sprintf("pod-%d", i))
			_, err := h.Publish(t.Context(), v)
			done <- errors.Join(err, h.Unpublish(t.Context(), v.Pod))
		}()
	}
	for range pods {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	h.mustBeClean()
}
