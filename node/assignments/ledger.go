package assignments

import (
	"log/slog"
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger is what the pods of one manager have, in memory and in its file. Its owner lets only one goroutine use it at a
// time.
type Ledger[P any] struct {
	*State[P]
	file File[P]
	// saved are the pods in the file, and uncommitted is the one to which something is being assigned, one at a time;
	// empty for none.
	saved       map[types.UID]bool
	uncommitted types.UID
	changed     func()
	log         *slog.Logger
}

// Open reads the file. changed is called when pods have got or lost something for good.
func Open[P any](file File[P], changed func(), log *slog.Logger) (*Ledger[P], error) {
	s, err := file.Read()
	if err != nil {
		return nil, err
	}
	l := &Ledger[P]{State: s, file: file, changed: changed, log: log}
	l.markSaved()
	return l, nil
}

// Assign records what a pod has, until Commit in memory only.
func (l *Ledger[P]) Assign(uid types.UID, has P) { l.Pods[uid], l.uncommitted = has, uid }

// Commit saves what was assigned to a pod, and reports whether that was anything.
func (l *Ledger[P]) Commit(uid types.UID) bool {
	if l.uncommitted != uid {
		return false
	}
	l.save()
	return true
}

// Release removes what a pod has, and reports whether that was anything.
func (l *Ledger[P]) Release(uid types.UID) bool {
	if _, had := l.Pods[uid]; !had {
		return false
	}
	delete(l.Pods, uid)
	if l.saved[uid] {
		l.save()
	} else {
		l.uncommitted = ""
		l.changed()
	}
	return true
}

// Retain removes what the pods have for which keep returns false.
func (l *Ledger[P]) Retain(keep func(types.UID) bool) {
	before := len(l.Pods)
	maps.DeleteFunc(l.Pods, func(uid types.UID, _ P) bool { return !keep(uid) })
	if len(l.Pods) != before {
		l.save()
	}
}

// Trial returns a copy without the pods that ended reports. It is never saved, as long as it is not committed.
func (l *Ledger[P]) Trial(ended func(types.UID) bool) *Ledger[P] {
	s := *l.State
	s.Pods = maps.Clone(s.Pods)
	maps.DeleteFunc(s.Pods, func(uid types.UID, _ P) bool { return ended(uid) })
	return &Ledger[P]{State: &s, changed: func() {}, log: l.log}
}

func (l *Ledger[P]) save() {
	l.uncommitted = ""
	l.markSaved()
	s := *l.State
	s.Pods = maps.Clone(s.Pods)
	if err := l.file.Save(s); err != nil {
		l.log.Warn(l.file.Unsaved, "err", err)
	}
	l.changed()
}

func (l *Ledger[P]) markSaved() {
	l.saved = make(map[types.UID]bool, len(l.Pods))
	for uid := range l.Pods {
		l.saved[uid] = true
	}
}
