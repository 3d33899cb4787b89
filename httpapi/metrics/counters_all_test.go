package metrics

import (
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Each counter is exported: one that is missing in all would be counted and never seen.
func TestAllCountersAreExported(t *testing.T) {
	c := NewCounters()
	fields := reflect.ValueOf(c).Elem()
	exported := c.all()
	for i := range fields.NumField() {
		name, field := fields.Type().Field(i).Name, fields.Field(i)
		if !field.Type().Implements(reflect.TypeFor[prometheus.Collector]()) {
			continue
		}
		// An unexported field cannot be read as a value, but compared by its pointer.
		pointer := field
		if field.Kind() == reflect.Interface {
			pointer = field.Elem()
		}
		if !slices.ContainsFunc(exported,
			func(e prometheus.Collector) bool { return reflect.ValueOf(e).Pointer() == pointer.Pointer() }) {
			t.Errorf("%s is missing in all", name)
		}
	}
	if fields.NumField() < len(exported) {
		t.Errorf("%d fields, %d are exported", fields.NumField(), len(exported))
	}
}
