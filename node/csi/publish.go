package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/fsgroup"
)

// Publish stages and publishes a volume for a pod, and returns the path of the volume. It can be
// repeated: what is published already and still mounted is left alone, and its driver is not
// called. The error names the driver and reports what to do.
func (m *Manager) Publish(ctx context.Context, v *csivolume.Volume) (path string, err error) {
	target, err := m.targetPath(v)
	if err != nil {
		return "", err
	}
	if published, err := m.published(v); err != nil || published != "" {
		return published, err
	}
	defer func() {
		if err != nil {
			m.await(v.Driver, v.Pod)
		}
	}()
	d, err := m.driverFor(v.Driver)
	if err != nil {
		return "", err
	}
	unlock, err := m.lock(ctx, v.Driver, v.Handle)
	if err != nil {
		return "", err
	}
	defer unlock()
	if v.PublishBlocked != nil {
		return "", v.PublishBlocked
	}
	p := &publication{Manager: m, driver: d, volume: v}
	if err := p.record(target); err != nil {
		return "", err
	}
	if err := p.stage(ctx); err != nil {
		return "", err
	}
	return p.pod.Target, p.publish(ctx)
}

// published returns the path of a volume that is as the pod needs it; empty if it is not.
func (m *Manager) published(v *csivolume.Volume) (string, error) {
	m.mu.Lock()
	err := m.load()
	path := ""
	if err == nil {
		if _, p := m.publishedRecords(v); p != nil {
			path = p.Target
		}
	}
	m.mu.Unlock()
	if path == "" {
		return "", err
	}
	if there, err := m.present(path, v.Block); err != nil || !there {
		return "", err
	}
	return path, nil
}

// present reports whether a volume is at the path at which it was published: something is mounted there, or it is
// a block device, which a driver need not mount.
func (m *Manager) present(path string, block bool) (bool, error) {
	if !block {
		point, err := m.mountedAt(path)
		return point != nil, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().Type() == os.ModeDevice, err
}

// publication is one call of Publish, which holds the lock of the volume. Only operations that
// hold it change the records, under the mutex.
type publication struct {
	*Manager
	driver *driver
	volume *csivolume.Volume
	vol    *record
	pod    *podRecord
}

// stages reports whether the volume is to be staged.
func (p *publication) stages() bool {
	return !p.volume.Ephemeral && p.driver.capabilities[capabilityStage]
}

// record records that the pod is going to use the volume, before the driver is called.
func (p *publication) record(target string) error {
	v := p.volume
	staging := ""
	if p.stages() {
		staging = p.stagingPath(v)
	}
	return p.update(func() {
		p.vol = p.state.find(v.Driver, v.Handle)
		if p.vol == nil {
			p.vol = &record{Driver: v.Driver, Handle: v.Handle, Ephemeral: v.Ephemeral, Capacity: v.Capacity}
			p.state.Volumes = append(p.state.Volumes, p.vol)
		}
		if p.vol.StagingPath == "" {
			p.vol.StagingPath = staging
		}
		p.vol.Stale = false
		p.pod = p.vol.pod(v.Pod, v.Name)
		if p.pod == nil {
			p.pod = &podRecord{UID: v.Pod, Name: v.Name, Target: target}
			p.vol.Pods = append(p.vol.Pods, p.pod)
		}
		p.pod.Published = false
	})
}

// capability reports how a pod uses a volume.
func (d *driver) capability(v *csivolume.Volume) volumeCapability {
	if v.Block {
		return volumeCapability{block: true, mode: accessModeOf(v.AccessMode, d.capabilities[capabilityWriters])}
	}
	c := volumeCapability{fsType: v.FSType, mountFlags: v.MountOptions,
		mode: accessModeOf(v.AccessMode, d.capabilities[capabilityWriters])}
	if v.Group.GID != nil && d.capabilities[capabilityMountGroup] {
		c.group = strconv.FormatInt(*v.Group.GID, 10)
	}
	return c
}

// stage stages the volume on the node, once for all pods.
func (p *publication) stage(ctx context.Context) error {
	if !p.stages() || p.vol.Staged && !p.vol.restage {
		return nil
	}
	if err := os.MkdirAll(p.vol.StagingPath, dirMode); err != nil {
		return err
	}
	err := p.driver.call(ctx, "NodeStageVolume", &stageRequest{
		volumeID: p.volume.Handle, attachContext: p.volume.AttachContext, stagingPath: p.vol.StagingPath,
		capability: p.driver.capability(p.volume), secrets: p.volume.Secrets.Stage, context: p.volume.Context,
	}, &empty{})
	if err != nil {
		return err
	}
	p.vol.restage = false
	return p.update(func() { p.vol.Staged, p.pod.Called = true, true })
}

// publish publishes the volume for the pod, and gives it to the pod's group.
func (p *publication) publish(ctx context.Context) error {
	if !p.pod.Called {
		if err := p.update(func() { p.pod.Called = true }); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(p.pod.Target), dirMode); err != nil {
		return err
	}
	if err := p.call(ctx); err != nil {
		var failed *callError
		if errors.As(err, &failed) && failed.cancelled == nil && p.vol.Staged {
			// The driver may have lost what it has staged: it is to be staged again, which a driver
			// that has not lost it allows.
			p.vol.restage = true
		}
		return err
	}
	there, err := p.present(p.pod.Target, p.volume.Block)
	if err != nil {
		return err
	}
	if !there {
		what, shared := "nothing is mounted", p.podsDir()
		if p.volume.Block {
			what, shared = "no block device is", p.pluginsDir()
		}
		return fmt.Errorf("CSI driver %s has published volume %s, but %s at %s; its container must mount %s with "+
			"mountPropagation: Bidirectional",
			p.volume.Driver, p.volume.Handle, what, p.pod.Target, shared)
	}
	if err := p.setGroup(ctx); err != nil {
		return err
	}
	if err := p.update(func() { p.pod.Published = true }); err != nil {
		return err
	}
	if p.volume.Republish {
		p.repeatLater(p.pod)
	}
	return nil
}

// call calls the driver to publish the volume.
func (p *publication) call(ctx context.Context) error {
	return p.driver.call(ctx, "NodePublishVolume", &publishRequest{
		volumeID: p.volume.Handle, attachContext: p.volume.AttachContext, stagingPath: p.vol.StagingPath,
		targetPath: p.pod.Target,
		capability: p.driver.capability(p.volume), readOnly: p.volume.ReadOnly, secrets: p.volume.Secrets.Publish,
		context: p.context(),
	}, &empty{})
}

// context returns the attributes of the volume and of the pod.
func (p *publication) context() map[string]string {
	if len(p.volume.PodContext) == 0 {
		return p.volume.Context
	}
	all := make(map[string]string, len(p.volume.Context)+len(p.volume.PodContext))
	maps.Copy(all, p.volume.Context)
	maps.Copy(all, p.volume.PodContext)
	return all
}

// setGroup gives the volume to the pod's group, unless the driver has done so.
func (p *publication) setGroup(ctx context.Context) error {
	if !p.volume.SetGroup || p.driver.capabilities[capabilityMountGroup] {
		return nil
	}
	return p.volume.Group.Apply(ctx, p.pod.Target, fsgroup.ReadWrite)
}

// Labeled reports whether files at a path of Publish can have SELinux labels.
func (m *Manager) Labeled(path string) bool {
	point, err := m.mountedAt(path)
	return err == nil && point != nil && strings.Contains(","+point.VFSOptions+","+point.Options+",", ",seclabel,")
}
