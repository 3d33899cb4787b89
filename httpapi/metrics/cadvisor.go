package metrics

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
)

// maxCadvisorAge is the maximum age of the stats of interfaces and devices,
// maxDiskAge that of the disks, whose files are walked.
const (
	maxCadvisorAge = time.Second
	maxDiskAge     = time.Minute
)

// cadvisorData is the input of one scrape. What could not be measured is empty.
type cadvisorData struct {
	node         *usage.Node
	pods         *usage.Pods
	disks        *usage.Disks
	traffic      map[types.UID][]usage.Interface
	details      *usage.Details
	specs        map[types.UID]*v1.Pod
	devices      map[string]string
	machine      Machine
	sandboxImage string
	// incomplete reports that a part could not be measured.
	incomplete bool
}

// cadvisor collects the container series that dashboards use. A part that cannot be
// measured does not hide the others; container_scrape_error reports it.
func (s *Sources) cadvisor(ctx context.Context) *cadvisorData {
	d := &cadvisorData{specs: map[types.UID]*v1.Pod{}, devices: map[string]string{}}
	var errs [5]error
	d.node, errs[0] = s.Stats.Node(ctx, maxCadvisorAge)
	d.pods, errs[1] = s.Stats.Pods(ctx, maxCadvisorAge)
	d.disks, errs[2] = s.Stats.Disks(ctx, maxDiskAge)
	d.traffic, errs[3] = s.Stats.Traffic(ctx, maxCadvisorAge)
	d.details, errs[4] = s.Stats.Details(ctx, maxCadvisorAge)
	for _, err := range errs {
		d.incomplete = d.incomplete || err != nil
	}
	for _, pod := range s.Specs() {
		d.specs[pod.UID] = pod
	}
	if s.Machine != nil {
		d.machine = s.Machine()
	}
	if s.SandboxImage != nil {
		d.sandboxImage, _ = s.SandboxImage(ctx) // the runtime is down, which other metrics show
	}
	return d
}

// collect implements collectorFunc.
func (d *cadvisorData) collect(to chan<- prometheus.Metric) {
	d.collectMachine(to)
	containerErrors.send(to, boolValue(d.incomplete))
	if d.disks == nil {
		d.disks = &usage.Disks{}
	}
	if d.details == nil {
		d.details = &usage.Details{}
	}
	d.collectNode(to)
	if d.pods == nil {
		return
	}
	for _, pod := range newestRevisions(d.pods) {
		d.pod(to, pod)
	}
}

func (d *cadvisorData) collectMachine(to chan<- prometheus.Metric) {
	m := d.machine
	l := []string{m.ID, m.SystemUUID, m.BootID}
	machineErrors.send(to, boolValue(d.node == nil))
	machineCores.send(to, float64(runtime.NumCPU()), l...)
	if m.PhysicalCores > 0 {
		machinePhysicalCores.send(to, float64(m.PhysicalCores), l...)
		machineSockets.send(to, float64(m.Sockets), l...)
	}
	if d.node != nil && d.node.Memory != nil {
		machineMemory.send(to, float64(d.node.Memory.Limit), l...)
		machineSwap.send(to, float64(d.node.SwapTotal), l...)
	}
	versionInfo.send(to, 1, m.Kernel, m.OS, "", "", "")
}

// collectNode sends the series of the root of all cgroups and of the cgroup of all pods.
func (d *cadvisorData) collectNode(to chan<- prometheus.Metric) {
	root := subject{"", "/", "", "", "", ""}
	if n := d.node; n != nil {
		root.usage(to, &n.Usage)
		root.interfaces(to, n.At, n.Interfaces)
		cStart.since(to, n.BootedAt, root[:]...)
		cSeen.since(to, n.At, root[:]...)
		if n.Memory != nil {
			cMemoryLimit.send(to, float64(n.Memory.Limit), root[:]...)
		}
	}
	seen := map[string]bool{}
	if c := d.details.Node; c != nil {
		withoutMemory := *c
		withoutMemory.Limits.Memory = nil // the node's is its capacity
		root.cgroup(to, &withoutMemory, d.device)
		for _, io := range c.IO {
			seen[d.device(io.Device)] = true
		}
	}
	for i := range d.details.Devices {
		device := &d.details.Devices[i]
		root.device(to, device, seen[device.Name])
	}
	if c := d.details.Pods; c != nil {
		all := subject{"", c.Path, "", "", "", ""}
		if d.node != nil {
			all.usage(to, &d.node.Pods)
			cSeen.since(to, c.At, all[:]...)
		}
		all.cgroup(to, c, d.device)
	}
}

func (d *cadvisorData) pod(to chan<- prometheus.Metric, pod *usage.Pod) {
	spec := d.specs[pod.UID]
	id := "/pod" + string(pod.UID)
	details := d.details.ByID[string(pod.UID)]
	if details != nil {
		id = details.Path
	}
	of := subject{"", id, "", "", pod.Namespace, pod.Name}
	of.usage(to, &pod.Usage)
	cStart.since(to, pod.StartedAt, of[:]...)
	cSeen.since(to, pod.At, of[:]...)
	if details != nil {
		of.cgroup(to, details, d.device)
	}
	d.sandbox(to, pod, id)
	disk := d.disks.Pods[pod.UID]
	for i := range pod.Containers {
		c := &pod.Containers[i]
		details := d.details.ByID[c.ID]
		of := subject{c.Name, idOf(details, id, c.ID), imageOf(spec, c.Name), c.ID, pod.Namespace, pod.Name}
		of.usage(to, &c.Usage)
		cStart.since(to, c.CreatedAt, of[:]...)
		cSeen.since(to, c.At, of[:]...)
		if details != nil {
			of.cgroup(to, details, d.device)
		}
		of.disk(to, c, disk)
	}
}

// sandbox sends the series of a pod's sandbox, to which the network belongs.
func (d *cadvisorData) sandbox(to chan<- prometheus.Metric, pod *usage.Pod, podID string) {
	if pod.SandboxID == "" {
		return
	}
	details := d.details.ByID[pod.SandboxID]
	of := subject{"", idOf(details, podID, pod.SandboxID), d.sandboxImage, pod.SandboxID, pod.Namespace, pod.Name}
	of.interfaces(to, pod.At, d.traffic[pod.UID])
	u, measured := d.details.Sandboxes[pod.SandboxID]
	if details == nil || !measured {
		return
	}
	of.usage(to, &u)
	cStart.since(to, pod.StartedAt, of[:]...)
	cSeen.since(to, u.At, of[:]...)
	of.cgroup(to, details, d.device)
}

// idOf returns the path of a cgroup. A virtual machine has none on this kernel.
func idOf(details *usage.Cgroup, pod, id string) string {
	if details != nil {
		return details.Path
	}
	return pod + "/" + id
}

// imageOf returns the image of a container as the runtime names it, or as the manifest does
// if there is no status yet.
func imageOf(pod *v1.Pod, name string) string {
	if pod == nil {
		return ""
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name && list[i].Image != "" {
				return list[i].Image
			}
		}
	}
	if c := podinfo.FindContainer(&pod.Spec, name); c != nil {
		return c.Image
	}
	return ""
}

// device returns the path of a block device by its number, as cAdvisor shows it.
func (d *cadvisorData) device(number string) string {
	path, known := d.devices[number]
	if known {
		return path
	}
	path = number
	major, minor, _ := strings.Cut(number, ":")
	if _, err := strconv.Atoi(major); err == nil {
		if link, err := os.Readlink("/sys/dev/block/" + major + ":" + minor); err == nil {
			path = "/dev/" + filepath.Base(link)
		}
	}
	d.devices[number] = path
	return path
}
