package cluster

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

// podState collects what State returns.
type podState struct {
	revision strings.Builder
	awaited  []string
}

// add adds the state of one thing that the pod refers to.
func (s *podState) add(what, state string) {
	s.revision.WriteString(what)
	s.revision.WriteByte('=')
	s.revision.WriteString(state)
	s.revision.WriteByte('\n')
}

// await adds what the API server has not responded yet.
func (s *podState) await(what string) { s.awaited = append(s.awaited, what) }

// State returns a revision of all that a pod refers to: when it changes the pod
// must be synced. awaited lists what the API server has not responded yet.
func (o *Objects) State(pod *v1.Pod) (revision string, awaited []string) {
	if why := o.Held(pod); why != "" {
		// None of its objects is known, which is not the same as removed.
		return "held: " + why, []string{"what it refers to"}
	}
	var refs uniqueList[manifest.ObjectRef]
	for _, ref := range o.watchedBy(pod) {
		refs.add(ref)
	}
	tokens, claims := tokensOf(pod), claimsOf(pod)
	var s podState
	o.mu.Lock()
	defer o.mu.Unlock()
	needs := o.csiState(pod, &s)
	for _, ref := range needs.secrets.items {
		refs.add(ref)
	}
	for _, key := range needs.tokens.items {
		tokens.add(key)
	}
	for _, ref := range refs.items {
		e := o.entries[ref]
		state := "?"
		switch {
		case e == nil || !e.known && e.err == nil:
			s.await(ref.String())
		case e.err != nil:
			state = e.revision + "!" + e.err.Error()
		default:
			state = e.revision
		}
		s.add(ref.String(), state)
	}
	for _, key := range tokens.items {
		state, known := o.tokens[key].state()
		s.add("token for "+key.audience, state)
		if !known {
			s.await("token of ServiceAccount " + key.namespace + "/" + key.account)
		}
	}
	for _, key := range claims.items {
		state, known := o.claims[key].state()
		what := "PersistentVolumeClaim " + key.namespace + "/" + key.name
		s.add(what, state)
		if !known {
			s.await(what)
		}
	}
	return s.revision.String(), s.awaited
}
