package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Resources are the resources of a container that can change while it runs: cpu
// in millicores, memory in bytes.
type Resources struct {
	Requests map[v1.ResourceName]int64 `json:"requests,omitempty"`
	Limits   map[v1.ResourceName]int64 `json:"limits,omitempty"`
	// Inherited are the limits that the container has of its pod, because it has none of its own. They
	// are no part of its definition.
	Inherited map[v1.ResourceName]int64 `json:"inherited,omitempty"`
}

// ResourcesOf returns those of a container, without inherited ones.
func ResourcesOf(r *v1.ResourceRequirements) Resources {
	amountsOf := func(list v1.ResourceList) map[v1.ResourceName]int64 {
		values := map[v1.ResourceName]int64{}
		if q, ok := list[v1.ResourceCPU]; ok {
			values[v1.ResourceCPU] = q.MilliValue()
		}
		if q, ok := list[v1.ResourceMemory]; ok {
			values[v1.ResourceMemory] = q.Value()
		}
		return values
	}
	return Resources{Requests: amountsOf(r.Requests), Limits: amountsOf(r.Limits)}
}

// resourcesIn returns those of a container of a pod, with the inherited limits.
func resourcesIn(pod *v1.Pod, c *v1.Container) Resources {
	r, a, own := ResourcesOf(&c.Resources), podinfo.ContainerAmounts(pod, c), podinfo.AmountsOf(&c.Resources)
	for name, limit := range map[v1.ResourceName][2]int64{
		v1.ResourceCPU: {own.CPULimit, a.CPULimit}, v1.ResourceMemory: {own.MemoryLimit, a.MemoryLimit},
	} {
		if limit[0] != limit[1] {
			if r.Inherited == nil {
				r.Inherited = map[v1.ResourceName]int64{}
			}
			r.Inherited[name] = limit[1]
		}
	}
	return r
}

// limit returns the limit that the container's cgroup has, 0 for none.
func (r Resources) limit(name v1.ResourceName) int64 {
	if own := r.Limits[name]; own > 0 {
		return own
	}
	return r.Inherited[name]
}

// Equal reports whether all values are the same, apart from inherited ones.
func (r Resources) Equal(o Resources) bool {
	return maps.Equal(r.Requests, o.Requests) && maps.Equal(r.Limits, o.Limits)
}

// ApplyTo replaces cpu and memory in requirements with these values. A quantity with
// the same value keeps its form, such as 100M. It modifies no shared list.
func (r Resources) ApplyTo(q v1.ResourceRequirements) v1.ResourceRequirements {
	present := ResourcesOf(&q)
	q.Requests, q.Limits = applyTo(q.Requests, present.Requests, r.Requests), applyTo(q.Limits, present.Limits, r.Limits)
	return q
}

func applyTo(list v1.ResourceList, present, values map[v1.ResourceName]int64) v1.ResourceList {
	list = list.DeepCopy()
	for name := range present {
		if _, kept := values[name]; !kept {
			delete(list, name)
		}
	}
	for name, value := range values {
		if had, ok := present[name]; ok && had == value {
			continue
		}
		if list == nil {
			list = v1.ResourceList{}
		}
		if name == v1.ResourceCPU {
			list[name] = *resource.NewMilliQuantity(value, resource.DecimalSI)
		} else {
			list[name] = *resource.NewQuantity(value, resource.BinarySI)
		}
	}
	return list
}

// Max returns the greater of each request and limit; a limit that only one of
// them has is absent.
func (r Resources) Max(o Resources) Resources {
	w := Resources{Requests: maps.Clone(r.Requests), Limits: map[v1.ResourceName]int64{}}
	if w.Requests == nil {
		w.Requests = map[v1.ResourceName]int64{}
	}
	for name, value := range o.Requests {
		w.Requests[name] = max(w.Requests[name], value)
	}
	for name, value := range r.Limits {
		if other, ok := o.Limits[name]; ok {
			w.Limits[name] = max(value, other)
		}
	}
	return w
}

// text is the value of the annotation. parseResources parses it and returns nil
// if it is empty or invalid.
func (r Resources) text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("cri: numbers do not marshal: " + err.Error())
	}
	return string(text)
}

func parseResources(text string) *Resources {
	var r Resources
	if text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return &r
}

// Actuated are the resources that were last set on a running container.
type Actuated struct {
	Resources
	// Uncertain means that setting them may have failed half way.
	Uncertain bool `json:"uncertain,omitempty"`
}

// Resize is a change of the resources of a running container.
type Resize struct {
	ID, Name string
	From, To Resources
	// Restart means that the container's resizePolicy requires a restart for this
	// change.
	Restart bool
}

// ResizeRetry is when a failed resize is retried. The kubelet waits 30 s or more;
// reading the memory in use costs little.
const ResizeRetry = 10 * time.Second

// Resizes returns the running containers of a pod whose resources differ from the
// pod's spec, in the order of the spec. actuated has the resources that were
// changed since creation, by ID. A container that was created by a version of
// podstead that did not record them is not included: it is restarted.
func Resizes(pod *v1.Pod, status *PodStatus, actuated map[string]Actuated) []Resize {
	v := newPlanner(PlanInput{Pod: pod, Status: status})
	var list []Resize
	for spec := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		c := v.running[spec.Name]
		if c == nil || c.Resources == nil || definitionChanged(spec, c) {
			continue
		}
		now := Actuated{Resources: *c.Resources}
		if a, ok := actuated[c.ID]; ok {
			now = a
		}
		to := resourcesIn(pod, spec)
		if now.Equal(to) && maps.Equal(now.Inherited, to.Inherited) && !now.Uncertain {
			continue
		}
		list = append(list, Resize{ID: c.ID, Name: c.Name, From: now.Resources, To: to,
			Restart: restartsFor(spec, now.Resources, to)})
	}
	return list
}

// restartsFor reports whether a container wants to be restarted for a change.
func restartsFor(c *v1.Container, from, to Resources) bool {
	for _, policy := range c.ResizePolicy {
		name := policy.ResourceName
		request, hasRequest := from.Requests[name]
		limit, hasLimit := from.Limits[name]
		newRequest, wantsRequest := to.Requests[name]
		newLimit, wantsLimit := to.Limits[name]
		same := request == newRequest && hasRequest == wantsRequest && limit == newLimit && hasLimit == wantsLimit
		if before := from.limit(name); same && before > 0 {
			// One that it did not inherit yet may be new to this version of podstead, which ends nothing that runs.
			same = before == to.limit(name)
		}
		if !same && policy.RestartPolicy == v1.RestartContainer {
			return true
		}
	}
	return false
}

// resizeOf returns the resize of a running container, nil if there is none.
func (v *planner) resizeOf(c *Container) *Resize {
	for i := range v.Resizes {
		if v.Resizes[i].ID == c.ID {
			return &v.Resizes[i]
		}
	}
	return nil
}

// planResizes plans the in-place resizes of containers that keep running.
func (v *planner) planResizes(a *Actions) {
	for _, r := range v.Resizes {
		kept := v.running[r.Name] != nil && v.running[r.Name].ID == r.ID && !r.Restart
		for _, k := range a.Kill {
			kept = kept && k.ID != r.ID
		}
		if kept && !a.KillPod {
			a.Resize = append(a.Resize, r)
		}
	}
}

// resize changes the resources of running containers. A failed resize is reported
// and retried; it does not block the others.
func (t *transaction) resize(ctx context.Context) {
	for _, r := range t.actions.Resize {
		err := t.resizeOne(ctx, r)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			t.result.Resized = append(t.result.Resized, r)
			continue
		}
		if t.result.ResizeErrors == nil {
			t.result.ResizeErrors = map[string]string{}
		}
		t.result.ResizeErrors[r.Name] = detail(err)
		if t.result.RetryAfter == 0 || t.result.RetryAfter > ResizeRetry {
			t.result.RetryAfter = ResizeRetry
		}
	}
}

func (t *transaction) resizeOne(ctx context.Context, r Resize) error {
	spec := specOf(t.Pod, r.Name)
	if limit := r.To.limit(v1.ResourceMemory); limit > 0 {
		if before := r.From.limit(v1.ResourceMemory); before == 0 || limit < before {
			used, err := t.runtime.MemoryUsage(ctx, r.ID)
			if err != nil {
				return err
			}
			if used >= limit {
				return fmt.Errorf("cannot set container %s memory limit (%d) below current usage (%d bytes); the resize is retried",
					r.Name, limit, used)
			}
		}
	}
	return t.runtime.UpdateContainerResources(ctx, r.ID, t.config.resizedResources(t.Pod, spec, r, t.Assigned))
}

// resizedResources returns the new resources of a running container. A removed
// limit is -1 here, because 0 leaves it unchanged.
func (g config) resizedResources(pod *v1.Pod, c *v1.Container, r Resize,
	assigned Assigned) *runtimeapi.LinuxContainerResources {
	to := g.containerResources(pod, c, assigned)
	if to.CpuQuota == 0 {
		to.CpuQuota = -1
	}
	if had := r.From.limit(v1.ResourceMemory) > 0; had && to.MemoryLimitInBytes == 0 {
		to.MemoryLimitInBytes = -1
	}
	// Neither changes while a container runs.
	to.OomScoreAdj, to.HugepageLimits = 0, nil
	return to
}
