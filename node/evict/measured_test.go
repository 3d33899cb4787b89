package evict

import (
	"context"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

type fakeCollector struct {
	pods  usage.Pods
	disks usage.Disks
}

func (f *fakeCollector) Pods(context.Context, time.Duration) (*usage.Pods, error) {
	return &f.pods, nil
}

func (f *fakeCollector) Disks(context.Context, time.Duration) (*usage.Disks, error) {
	return &f.disks, nil
}

// A pod is ranked by its working set and processes, and on disk by what is removed with it: no claim, and nothing
// of a container that was not measured.
func TestMeasured(t *testing.T) {
	processes, at := uint64(3), time.Unix(9, 0)
	space := func(bytes, inodes uint64) usage.Filesystem { return usage.Filesystem{Used: bytes, InodesUsed: inodes} }
	rootfs, logs, files := space(30, 3), space(40, 4), space(5, 1)
	c := &fakeCollector{
		pods: usage.Pods{Pods: []usage.Pod{
			{UID: "a", Usage: usage.Usage{Memory: &usage.Memory{Usage: 100, InactiveFile: 20}, Processes: &processes}},
			{UID: "b"},
		}},
		disks: usage.Disks{Pods: map[types.UID]*usage.PodDisk{"a": {
			UID: "a", At: at, Files: &files,
			Volumes: []usage.Volume{{Name: "scratch", Ephemeral: true, Filesystem: space(10, 1)},
				{Name: "data", Filesystem: space(900, 9)}},
			Containers: []usage.ContainerDisk{{Name: "main", Rootfs: &rootfs, Logs: &logs}, {Name: "new"}},
		}}},
	}
	running, err := Measured(c).Running(t.Context())
	if want := map[types.UID]Usage{"a": {Memory: 80, Processes: 3}, "b": {}}; err != nil ||
		!reflect.DeepEqual(running, want) {
		t.Errorf("%+v, %v, want %+v", running, err, want)
	}
	disks, err := Measured(c).Disks(t.Context(), time.Minute)
	want := map[types.UID]Disk{"a": {
		At: at, Volumes: map[string]Space{"scratch": {10, 1}}, Files: Space{5, 1},
		Rootfs: map[string]Space{"main": {30, 3}}, Logs: map[string]Space{"main": {40, 4}},
	}}
	if err != nil || !reflect.DeepEqual(disks, want) {
		t.Errorf("%+v, %v, want %+v", disks, err, want)
	}
}
