package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func serviceOf(namespace, name string, ports int) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)},
		Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1"},
	}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	return s
}

// Services beyond the bound are kept without their ports, those of other namespaces have
// theirs, and the space of services that are gone is free again.
func TestServicesAreBounded(t *testing.T) {
	var log bytes.Buffer
	b := newServiceBudget(slog.New(slog.NewTextHandler(&log, nil)))
	kept, without := 0, 0
	var first *v1.Service
	for i := range 100 {
		s := b.reduce(serviceOf("greedy", fmt.Sprint(i), 10_000))
		if first == nil {
			first = s
		}
		kept += memory(reflect.ValueOf(s))
		if !hasVariables(s) {
			without++
		}
	}
	if kept > maxServiceMemory || without == 0 || without == 100 || strings.Count(log.String(), "no variables") != 1 {
		t.Errorf("%d bytes are kept, %d services are without ports; log: %s", kept, without, log.String())
	}
	if s := b.reduce(serviceOf("default", "kubernetes", 1)); !hasVariables(s) {
		t.Error("the service of another namespace has no ports")
	}
	b.remove(first.UID)
	if s := b.reduce(serviceOf("greedy", "new", 10_000)); !hasVariables(s) {
		t.Error("the space of a service that is gone is not free")
	}
	b.retain(nil)
	if b.total != 0 || len(b.used) != 0 || len(b.services) != 0 {
		t.Errorf("%d bytes, %v", b.total, b.used)
	}
}

// The variables of services come with what the API server lists and sends later.
func TestServicesThatAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		listed, headless := serviceOf("default", "listed", 2), serviceOf("default", "headless", 2)
		headless.Spec.ClusterIP = v1.ClusterIPNone
		r.replace(t, listed)
		r.replace(t, headless)
		r.pod("p")
		r.start()
		pass(time.Second)
		r.replace(t, serviceOf("default", "later", 1))
		pass(time.Second)
		var names []string
		for _, s := range r.o.Services("default") {
			if hasVariables(s) {
				names = append(names, fmt.Sprint(s.Name, len(s.Spec.Ports)))
			}
		}
		if got := strings.Join(names, " "); got != "later1 listed2" {
			t.Errorf("services: %s", got)
		}
		r.end()
	})
}
