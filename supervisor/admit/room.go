package admit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// reasonOutOf begins the reason of a refusal for want of a resource, whose name
// ends it, as in OutOfcpu.
const reasonOutOf = "OutOf"

// IsShortage reports whether a refusal is for want of a resource of the node.
func IsShortage(reason string) bool { return strings.HasPrefix(reason, reasonOutOf) }

// Short is the resource for want of which a pod was refused.
func Short(reason string) string { return strings.TrimPrefix(reason, reasonOutOf) }

// Stake is what one pod has of a node, or asks for.
type Stake struct {
	// Pod is the pod with its classes resolved.
	Pod   *v1.Pod
	Needs Needs
	// Name is the pod's full name, Ports those of the host that it asks for.
	Name  string
	Ports []Port
	// Since is when the pod's name was first wanted.
	Since time.Time
	// Ending: the pod is being ended and gives back what it has.
	Ending bool
	// Grows: the pod has a stake already, and this is what it asks for beside.
	Grows bool
	// Unsettled: it has not said yet whether it runs, or whether it asks.
	Unsettled bool
}

// NewStake is that of a pod with its classes resolved.
func NewStake(pod *v1.Pod) Stake {
	return Stake{Pod: pod, Needs: NeedsOf(pod), Name: podinfo.FullName(pod), Ports: HostPorts(pod)}
}

// Room is what a node has for pods, who has it, and who waits for it.
type Room struct {
	// Has is nil for a node without bounds. Otherwise hugepages that are not
	// in it are not there; of other resources there is enough then.
	Has     Needs
	Holders []*Stake
	// Waiting, in any order.
	Waiting []*Stake
	// Total is what all these have or ask for together; nil if nobody has
	// counted it.
	Total Needs
}

// Verdict is what comes of asking.
type Verdict struct {
	// Refusal is nil if there is room.
	Refusal *Refusal
	// Never: it asks for more than pods can ever have here.
	Never bool
	// Obstacle is what the refusal is for, in a word that changes with it.
	Obstacle string
	// Unsettled: a refusal may not last, since not everybody has spoken.
	Unsettled bool
	// Victims are to be ended, so that there will be room for a critical pod.
	Victims []*Stake
}

// senior reports whether a goes before b: the higher priority, then who is
// wanted for longer, then by name.
func senior(a, b *Stake) bool {
	return cmp.Or(
		cmp.Compare(podinfo.Priority(b.Pod), podinfo.Priority(a.Pod)),
		a.Since.Compare(b.Since),
		strings.Compare(a.Name, b.Name),
		strings.Compare(string(a.Pod.UID), string(b.Pod.UID)),
	) < 0
}

// Decide says whether a pod may have what it asks for. Those who waited longer go
// before it: what they can have now is theirs, and what they are going to have
// when pods that end by themselves have ended is kept for them, so that small
// pods that come and go never starve a large one. Who waits for what only pods
// have that never end by themselves keeps nobody from anything.
func (r *Room) Decide(asks *Stake) Verdict {
	if r.plenty(asks) {
		return Verdict{}
	}
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
	v := Verdict{Refusal: refusal, Obstacle: f.obstacle(asks), Never: never, Unsettled: refusal != nil && unsettled && !never}
	if refusal != nil && !v.Unsettled && !never && IsShortage(refusal.Reason) && preempts(asks) {
		v.Victims = f.victims(asks)
	}
	return v
}

// plenty reports whether there is room for everybody, and no port that two ask
// for.
func (r *Room) plenty(asks *Stake) bool {
	if r.Total == nil {
		return false
	}
	for name, amount := range asks.Needs {
		if has, bounded := capacity(r.Has, name); bounded && amount > 0 && r.Total[name] > has {
			return false
		}
	}
	if asks.Grows || len(asks.Ports) == 0 {
		return true
	}
	taken := func(s *Stake) bool { return s.Pod.UID != asks.Pod.UID && !s.Grows && asks.clashes(s) }
	return !slices.ContainsFunc(r.Holders, taken) && !slices.ContainsFunc(r.Waiting, taken)
}

// clashes reports whether two cannot have their ports beside each other.
func (s *Stake) clashes(o *Stake) bool {
	for _, a := range s.Ports {
		for _, b := range o.Ports {
			if a.clashes(b) {
				return true
			}
		}
	}
	return false
}

// Outlook is what one that waits would be told now: its obstacle, as in a
// Verdict, which is empty if it may have what it asks for.
type Outlook struct {
	*Stake
	Obstacle string
}

// Outlooks are those of all that wait.
func (r *Room) Outlooks() []Outlook {
	f := r.forecast()
	list := make([]Outlook, 0, len(r.Waiting))
	for _, w := range r.queue() {
		o := Outlook{w, f.obstacle(w)}
		if before := f.predecessor(w); before != nil {
			o.Obstacle = string(before.Pod.UID)
		}
		list = append(list, o)
		f.pass(w)
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
	// byName has the indices of holders.
	byName map[string]int
	// byPort has the holders by the numbers of their ports.
	byPort map[int32][]*Stake
	// used is what holders have, lasting the part that is not given back by
	// itself, kept what is kept for those who wait.
	used, lasting, kept Needs
	// keeper is for whom a resource is kept.
	keeper map[v1.ResourceName]*v1.Pod
}

func (r *Room) forecast() *forecast {
	f := &forecast{has: r.Has, byName: map[string]int{}, byPort: map[int32][]*Stake{}, used: Needs{}, lasting: Needs{}, kept: Needs{}, keeper: map[v1.ResourceName]*v1.Pod{}}
	for _, h := range r.Holders {
		f.hold(h)
	}
	return f
}

func (f *forecast) hold(s *Stake) {
	f.byName[s.Name] = len(f.holders)
	f.holders = append(f.holders, s)
	f.count(s)
}

func (f *forecast) count(s *Stake) {
	for _, p := range s.Ports {
		f.byPort[p.Number] = append(f.byPort[p.Number], s)
	}
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

// pass lets one that waits have its turn.
func (f *forecast) pass(w *Stake) {
	if before := f.predecessor(w); before != nil {
		// It takes the place of the revision before, which still ends.
		f.used.subtract(before.Needs)
		if lasts(before) {
			f.lasting.subtract(before.Needs)
		}
		both := *w
		both.Needs = maps.Clone(w.Needs)
		both.Needs.raise(before.Needs)
		f.holders[f.byName[w.Name]] = &both
		f.count(&both)
		return
	}
	if f.obstacle(w) == "" {
		f.hold(w)
		return
	}
	if f.awaitable(w) {
		f.kept.add(w.Needs)
		for name := range w.Needs {
			if f.keeper[name] == nil {
				f.keeper[name] = w.Pod
			}
		}
	}
}

// predecessor is the holder whose name a pod waits for, nil if there is none.
func (f *forecast) predecessor(w *Stake) *Stake {
	if i, ok := f.byName[w.Name]; ok && !w.Grows && f.holders[i].Pod.UID != w.Pod.UID {
		return f.holders[i]
	}
	return nil
}

// obstacle is who has a port that a pod asks for, or what resource is short;
// empty if it can have what it asks for.
func (f *forecast) obstacle(w *Stake) string {
	if h := f.portHolder(w, func(*Stake) bool { return true }); h != nil {
		return string(h.Pod.UID)
	}
	least := v1.ResourceName("")
	for name, amount := range w.Needs {
		if f.short(name, amount) && (least == "" || name < least) {
			least = name
		}
	}
	return string(least)
}

// portHolder is one of the holders that counts and has a port that the pod asks
// for, nil if none has.
func (f *forecast) portHolder(w *Stake, counts func(*Stake) bool) *Stake {
	if w.Grows {
		return nil
	}
	for _, p := range w.Ports {
		for _, h := range f.byPort[p.Number] {
			if h.Pod.UID != w.Pod.UID && counts(h) && w.clashes(h) {
				return h
			}
		}
	}
	return nil
}

// short reports whether there is less of a resource than an amount, what is kept
// for others aside.
func (f *forecast) short(name v1.ResourceName, amount int64) bool {
	has, bounded := capacity(f.has, name)
	if !bounded || amount <= 0 {
		return false
	}
	return f.used[name]+amount > has || f.kept[name] > 0 && f.lasting[name]+f.kept[name]+amount > has
}

// awaitable reports whether one that waits gets what it asks for when all has
// ended that ends by itself.
func (f *forecast) awaitable(w *Stake) bool {
	for name, amount := range w.Needs {
		if has, bounded := capacity(f.has, name); bounded && amount > 0 && f.lasting[name]+f.kept[name]+amount > has {
			return false
		}
	}
	return f.portHolder(w, lasts) == nil
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

// capacity is what there is of a resource, and whether that is bounded.
func capacity(node Needs, name v1.ResourceName) (int64, bool) {
	has, known := node[name]
	return has, known || node != nil && isHugePages(name)
}

// refuse is why a pod cannot have what it asks for; never says that it is more
// than the node has.
func (f *forecast) refuse(s *Stake) (refusal *Refusal, never bool) {
	if h := f.portHolder(s, func(*Stake) bool { return true }); h != nil {
		return PortTaken(s.Pod, h.Pod), false
	}
	var texts []string
	reason, own := "", f.own(s)
	for _, name := range s.Needs.names() {
		amount := s.Needs[name]
		if !f.short(name, amount) {
			continue
		}
		has, _ := capacity(f.has, name)
		more := ""
		if s.Grows {
			more = " more"
		}
		text := fmt.Sprintf("not enough %s: requested %s%s, used %s, capacity %s", name,
			amountText(name, amount), more, amountText(name, f.used[name]), amountText(name, has))
		if f.used[name]+amount <= has {
			text += fmt.Sprintf(", of which %s is kept for pod %s, which goes first", amountText(name, f.kept[name]), podinfo.FullName(f.keeper[name]))
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
