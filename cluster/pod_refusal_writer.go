package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxUnnamedRefusals is how many refusals of a status in a row do not lead to its fields being sent one by one: the API
// server learns a little later than the node which pods are bound to it.
const maxUnnamedRefusals = 2

// refusedOf returns what the API server refused of the status of a pod with that UID, nil if nothing.
func (w *podWriter) refusedOf(name string, uid types.UID) *refusedStatus {
	r := w.refused[name]
	if r == nil || r.uid != uid || time.Now().After(r.until) {
		return nil
	}
	return r
}

// refusalDue returns after which time the whole status of a pod is sent again; 0 is never. When that time has come the
// pod is compared again.
func (w *podWriter) refusalDue(name string, now time.Time) time.Duration {
	r := w.refused[name]
	if r == nil {
		return 0
	}
	if wait := r.until.Sub(now); wait > 0 {
		return wait + time.Millisecond
	}
	delete(w.inSync, name)
	return 0
}

// forgetRefusal forgets what was refused of a status that the API server has as a whole.
func (w *podWriter) forgetRefusal(name string) {
	if r := w.refused[name]; r != nil && time.Now().After(r.until) {
		delete(w.refused, name)
	}
}

// learnRefusal notes what the response to a patch refuses, and reports whether the rest of the status can be sent
// now.
func (w *podWriter) learnRefusal(r *result) bool {
	if r.patch == nil || r.shown == nil || isMirror(r.shown) || !isResponse(r.err) {
		return false
	}
	known := w.refusedOf(r.key, r.shown.UID)
	if known == nil {
		known = &refusedStatus{uid: r.shown.UID, states: map[[2]string]bool{}, fields: map[string]bool{}}
		if before := w.refused[r.key]; before != nil && before.uid == known.uid {
			known.reported = before.reported
		}
	}
	switch {
	case known.learn(r.err, &r.shown.Status):
	case known.trial != "":
		known.fields[known.trial] = true
		known.nextTrial()
	case w.failures(r.key) < maxUnnamedRefusals || !known.beginTrial(r.patch):
		return false
	}
	known.until, known.err = time.Now().Add(maxRefusalDelay), r.err
	w.refused[r.key] = known
	w.logRefusal(r.key, known)
	return true
}

// endTrial goes on with the next field of a status after the API server has accepted one, or has it already. It
// returns false if there is no trial.
func (w *podWriter) endTrial(name string, uid types.UID) bool {
	known := w.refusedOf(name, uid)
	if known == nil || known.trial == "" {
		return false
	}
	known.nextTrial()
	w.logRefusal(name, known)
	return true
}

// logRefusal reports what was refused, once, when that is known.
func (w *podWriter) logRefusal(name string, known *refusedStatus) {
	text := known.text()
	if known.trial != "" || text == "" || text == known.reported {
		return
	}
	known.reported = text
	w.cfg.Log.Warn("API server refused a part of the pod's status, which stays as it is there; the rest is reported",
		"pod", name, "refused", text, "err", known.err)
}
