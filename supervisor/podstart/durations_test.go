package podstart

import (
	"reflect"
	"testing"
	"time"

	"github.com/podstead/podstead/cri"
)

func TestDurations(t *testing.T) {
	var d Durations
	const uid = "u"
	d.Add(uid, "sandbox", time.Second) // of a pod that did not begin here
	d.End(uid, time.Second)
	if _, ok := d.Get(uid); ok {
		t.Fatal("a pod that did not begin here has a duration")
	}
	d.Begin(uid)
	d.Add(uid, "sandbox", 3*time.Second)
	d.Add(uid, "start", time.Second)
	d.Add(uid, "sandbox", time.Second)
	if _, ok := d.Get(uid); ok {
		t.Fatal("a pod that still starts has a duration")
	}
	d.End(uid, 6*time.Second)
	d.Add(uid, "start", time.Hour) // the restart of a container
	d.End(uid, time.Hour)
	want := Duration{Took: 6 * time.Second,
		Steps: []cri.Step{{Name: "sandbox", Took: 4 * time.Second}, {Name: "start", Took: time.Second}}}
	if got, ok := d.Get(uid); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, ok, want)
	}
	d.Begin(uid)
	if _, ok := d.Get(uid); ok {
		t.Error("a pod that starts again has the duration of its first start")
	}
	d.End(uid, time.Second)
	d.Forget(uid)
	if _, ok := d.Get(uid); ok {
		t.Error("a forgotten pod has a duration")
	}
}
