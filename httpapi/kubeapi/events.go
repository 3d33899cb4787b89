package kubeapi

import (
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// The group events.k8s.io has the same events as the core group, with other names of the fields.
// k9s reads only these.

// newEventSource returns the events of a source as those of events.k8s.io.
func newEventSource(core Source) Source {
	if core.List == nil {
		return Source{}
	}
	return Source{Subscribe: core.Subscribe, List: func() []Object {
		all := core.List()
		for i, o := range all {
			e := o.(*v1.Event)
			own := &eventsv1.Event{
				ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
				ReportingInstance: e.ReportingInstance,
				Action:            e.Action, Reason: e.Reason, Regarding: e.InvolvedObject, Related: e.Related, Note: e.Message,
				Type:             e.Type,
				DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp,
				DeprecatedCount: e.Count,
			}
			if e.Series != nil {
				own.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
			}
			all[i] = own
		}
		return all
	}}
}

// coreEvent returns the part of an event that its row in a table shows.
func coreEvent(o Object) *v1.Event {
	e := o.(*eventsv1.Event)
	return &v1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Reason: e.Reason, Message: e.Note, Type: e.Type,
		Source:         e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
	}
}

func newEventRow(o Object) []any { return eventRow(coreEvent(o)) }

func newEventFields(o Object) fields.Set {
	e, set := o.(*eventsv1.Event), nameFields(o)
	set["regarding.kind"], set["regarding.namespace"], set["regarding.name"] = e.Regarding.Kind, e.Regarding.Namespace,
		e.Regarding.Name
	set["regarding.uid"], set["reason"], set["type"] = string(e.Regarding.UID), e.Reason, e.Type
	set["reportingController"] = e.ReportingController
	return set
}
