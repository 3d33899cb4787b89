package admit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// reasonOutOf begins the reason of a refusal for want of a resource, whose name
// ends it, as in OutOfcpu.
const reasonOutOf = "OutOf"

// IsShortage reports whether a refusal is for want of a resource of the node.
func IsShortage(reason string) bool { return strings.HasPrefix(reason, reasonOutOf) }

// Stake is what one pod has of a node, or asks for.
type Stake struct {
	// Pod is the pod with its classes resolved.
	Pod   *v1.Pod
	Needs Needs
	// Since is when the pod's name was first wanted.
	Since time.Time
	// Ending: the pod is being ended and gives back what it has.
	Ending bool
	// Grows: the pod has a stake already, and this is what it asks for beside.
	Grows bool
	// Unsettled: it has not said yet whether it runs, or whether it asks.
	Unsettled bool
}

// Room is what a node has for pods, who has it, and who waits for it.
type Room struct {
	// Has is nil for a node without bounds. Otherwise hugepages that are not
	// in it are not there; of other resources there is enough then.
	Has     Needs
	Holders []*Stake
	// Waiting, in any order.
	Waiting []*Stake
}

// Verdict is what comes of asking.
type Verdict struct {
	// Refusal is nil if there is room.
	Refusal *Refusal
	// Never: it asks for more than pods can ever have here.
	Never bool
	// Unsettled: a refusal may not last, since not everybody has spoken.
	Unsettled bool
	// Victims are to be ended, so that there will be room for a critical pod.
	Victims []*Stake
}

// senior reports whether a goes before b: the higher priority, then who is
// wanted for longer, then by name.
func senior(a, b *Stake) bool {
	return cmp.Or(
		cmp.Compare(priority(b.Pod), priority(a.Pod)),
		a.Since.Compare(b.Since),
		strings.Compare(fullName(a.Pod), fullName(b.Pod)),
		strings.Compare(string(a.Pod.UID), string(b.Pod.UID)),
	) < 0
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func fullName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// Decide says whether a pod may have what it asks for. Those who waited longer go
// before it: what they can have now is theirs, and what they are going to have
// when pods that end by themselves have ended is kept for them, so that small
// pods that come and go never starve a large one. Who waits for what only pods
// have that never end by themselves keeps nobody from anything.
func (r *Room) Decide(asks *Stake) Verdict {
	f := r.forecast()
	unsettled := slices.ContainsFunc(r.Holders, func(h *Stake) bool { return h.Unsettled })
	for _, w := range r.queue() {
		if w.Pod.UID == asks.Pod.UID {
			continue
		}
		if !senior(w, asks) {
			break
		}
		unsettled = unsettled || w.Unsettled
		f.pass(w)
	}
	refusal, never := f.refuse(asks)
	v := Verdict{Refusal: refusal, Never: never, Unsettled: refusal != nil && unsettled && !never}
	if refusal != nil && !v.Unsettled && !never && IsShortage(refusal.Reason) && preempts(asks) {
		v.Victims = f.victims(asks)
	}
	return v
}

// Admissible are those of the waiting who may have what they ask for now.
func (r *Room) Admissible() []*Stake {
	f := r.forecast()
	var list []*Stake
	for _, w := range r.queue() {
		if f.pass(w) {
			list = append(list, w)
		}
	}
	return list
}

func (r *Room) queue() []*Stake {
	return slices.SortedFunc(slices.Values(r.Waiting), func(a, b *Stake) int {
		if senior(a, b) {
			return -1
		}
		return 1
	})
}

// forecast is a room as it will be when those before have had their turn.
type forecast struct {
	has     Needs
	holders []*Stake
	// used is what holders have, lasting the part that is not given back by
	// itself, kept what is kept for those who wait.
	used, lasting, kept Needs
	// keeper is for whom a resource is kept.
	keeper map[v1.ResourceName]*v1.Pod
}

func (r *Room) forecast() *forecast {
	f := &forecast{has: r.Has, used: Needs{}, lasting: Needs{}, kept: Needs{}, keeper: map[v1.ResourceName]*v1.Pod{}}
	for _, h := range r.Holders {
		f.hold(h)
	}
	return f
}

func (f *forecast) hold(s *Stake) {
	f.holders = append(f.holders, s)
	f.used.add(s.Needs)
	if lasts(s) {
		f.lasting.add(s.Needs)
	}
}

// lasts tells a pod that does not end by itself.
func lasts(s *Stake) bool {
	return !s.Ending && s.Pod.Spec.RestartPolicy != v1.RestartPolicyNever && s.Pod.Spec.RestartPolicy != v1.RestartPolicyOnFailure &&
		s.Pod.Spec.ActiveDeadlineSeconds == nil
}

// pass lets one that waits have its turn, and reports whether it gets what it
// asks for.
func (f *forecast) pass(w *Stake) bool {
	if i := f.predecessor(w); i >= 0 {
		// It takes the place of the revision before, which still ends.
		before := f.holders[i]
		f.holders = slices.Delete(slices.Clone(f.holders), i, i+1)
		f.used.subtract(before.Needs)
		taken := maps.Clone(w.Needs)
		taken.raise(before.Needs)
		f.hold(&Stake{Pod: w.Pod, Needs: taken, Since: w.Since})
		return false
	}
	if refusal, _ := f.refuse(w); refusal == nil {
		f.hold(w)
		return true
	}
	if f.awaitable(w) {
		f.kept.add(w.Needs)
		for name := range w.Needs {
			if f.keeper[name] == nil {
				f.keeper[name] = w.Pod
			}
		}
	}
	return false
}

// predecessor is the index of the pod whose name another one waits for, -1 if
// there is none.
func (f *forecast) predecessor(w *Stake) int {
	return slices.IndexFunc(f.holders, func(h *Stake) bool {
		return !w.Grows && h.Pod.UID != w.Pod.UID && fullName(h.Pod) == fullName(w.Pod)
	})
}

// awaitable reports whether one that waits gets what it asks for when all has
// ended that ends by itself.
func (f *forecast) awaitable(w *Stake) bool {
	for name, amount := range w.Needs {
		if has, bounded := f.capacity(name); bounded && amount > 0 && f.lasting[name]+f.kept[name]+amount > has {
			return false
		}
	}
	return w.Grows || !slices.ContainsFunc(f.holders, func(h *Stake) bool { return lasts(h) && PortTaken(w.Pod, h.Pod) != nil })
}

// own is what a pod that grows has already.
func (f *forecast) own(s *Stake) Needs {
	if s.Grows {
		for _, h := range f.holders {
			if h.Pod.UID == s.Pod.UID {
				return h.Needs
			}
		}
	}
	return nil
}

func (f *forecast) capacity(name v1.ResourceName) (int64, bool) {
	has, known := f.has[name]
	return has, known || f.has != nil && isHugePages(name)
}

// refuse is why a pod cannot have what it asks for; never says that it is more
// than the node has.
func (f *forecast) refuse(s *Stake) (refusal *Refusal, never bool) {
	if !s.Grows && len(HostPorts(s.Pod)) > 0 {
		for _, h := range f.holders {
			if h.Pod.UID == s.Pod.UID {
				continue
			}
			if refusal := PortTaken(s.Pod, h.Pod); refusal != nil {
				return refusal, false
			}
		}
	}
	var texts []string
	reason, own := "", f.own(s)
	for _, name := range s.Needs.names() {
		amount := s.Needs[name]
		has, bounded := f.capacity(name)
		if !bounded || amount <= 0 {
			continue
		}
		more := ""
		if s.Grows {
			more = " more"
		}
		text := fmt.Sprintf("not enough %s: requested %s%s, used %s, capacity %s", name,
			amountText(name, amount), more, amountText(name, f.used[name]), amountText(name, has))
		switch {
		case f.used[name]+amount > has:
		case f.lasting[name]+f.kept[name]+amount > has && f.kept[name] > 0:
			text += fmt.Sprintf(", of which %s is kept for pod %s, which goes first", amountText(name, f.kept[name]), fullName(f.keeper[name]))
		default:
			continue
		}
		if reason == "" {
			reason = reasonOutOf + string(name)
		}
		texts = append(texts, text)
		never = never || amount+own[name] > has
	}
	if reason == "" {
		return nil, false
	}
	hint := "it starts when there is room"
	switch {
	case never:
		hint = "that is more than pods can ever have here; request less"
	case s.Grows:
		hint = "it is resized when there is room"
	}
	return &Refusal{reason, strings.Join(append(texts, hint), "; ")}, never
}
