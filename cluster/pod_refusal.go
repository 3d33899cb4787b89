package cluster

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// refusedStatus is what the API server refused of a pod's status. It refuses a status as a whole, so that one
// field that it does not accept would keep everything else from being reported, for good. The refused fields
// stay as the API has them. The kubelet sends the same status again and again.
type refusedStatus struct {
	uid types.UID
	// states are the containers whose state was refused, by the list and their name: the API server accepts no
	// status that leaves the terminated state of a container which the restartPolicy keeps down. Another
	// termination is accepted.
	states map[[2]string]bool
	// fields are the refused fields of the status, by their names in JSON.
	fields map[string]bool
	// trial is the field that is sent by itself, and untried are those that follow: the response did not say which field
	// it refuses. They are in fields until they are accepted.
	trial   string
	untried []string
	// until is when the whole status is sent again.
	until time.Time
	// err is the last refusal, reported what the log reports was refused.
	err      error
	reported string
}

// The kubelet's exit code, 128 + SIGKILL, and reason of an end that was not observed.
const (
	unobservedExitCode  = 137
	reasonStatusUnknown = "ContainerStatusUnknown"
)

// refusedPath finds a field of the status in the path of a cause.
var refusedPath = regexp.MustCompile(`^status\.([A-Za-z]+)(?:\[(\d+)\])?`)

// learn adds what a response to a patch of the pod refuses. It returns false if that is nothing new: then the
// rest of the status is refused too, or the response does not say what is.
func (r *refusedStatus) learn(err error, api *v1.PodStatus) (learned bool) {
	var response apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &response) || response.Status().Details == nil {
		return false
	}
	for _, cause := range response.Status().Details.Causes {
		match := refusedPath.FindStringSubmatch(cause.Field)
		if match == nil {
			continue
		}
		field, state := match[1], [2]string{match[1], ""}
		if index, err := strconv.Atoi(match[2]); err == nil {
			if list := containerStatuses(api, field); list != nil && index < len(*list) {
				state[1] = (*list)[index].Name
			}
		}
		switch {
		case state[1] != "" && !r.states[state]:
			r.states[state], learned = true, true
		case !r.fields[field]:
			r.fields[field], learned = true, true
		}
	}
	return learned
}

// apply gives a status what the API has of the refused fields.
func (r *refusedStatus) apply(st *v1.PodStatus, shown *v1.Pod) error {
	api := &shown.Status
	for state := range r.states {
		have, want := containerStatuses(api, state[0]), containerStatuses(st, state[0])
		i := slices.IndexFunc(*have, func(c v1.ContainerStatus) bool { return c.Name == state[1] })
		j := slices.IndexFunc(*want, func(c v1.ContainerStatus) bool { return c.Name == state[1] })
		if i >= 0 && j >= 0 && (*want)[j].State.Terminated == nil {
			leave(&(*want)[j].State, (*have)[i].State.Terminated, shown.Spec.RestartPolicy)
		}
	}
	if len(r.fields) == 0 {
		return nil
	}
	have, err := fieldsOf(api)
	if err != nil {
		return err
	}
	want, err := fieldsOf(st)
	if err != nil {
		return err
	}
	for field := range r.fields {
		if value, ok := have[field]; ok {
			want[field] = value
		} else {
			delete(want, field)
		}
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	*st = v1.PodStatus{}
	return json.Unmarshal(text, st)
}

// leave changes the state of a container that runs, or is going to, to one that the API server accepts after the end
// that it has; nil is none. With restartPolicy OnFailure only an end with 0 cannot be left: it is replaced by one whose
// exit was not observed, and the state is sent after that. Otherwise the container would be shown as completed for as
// long as it runs.
func leave(state *v1.ContainerState, end *v1.ContainerStateTerminated, policy v1.RestartPolicy) {
	switch {
	case end == nil || policy == v1.RestartPolicyOnFailure && end.ExitCode != 0:
	case policy == v1.RestartPolicyOnFailure:
		unknown := *end
		unknown.ExitCode, unknown.Reason = unobservedExitCode, reasonStatusUnknown
		unknown.Message = "the container was restarted"
		*state = v1.ContainerState{Terminated: &unknown}
	default:
		*state = v1.ContainerState{Terminated: end}
	}
}

// beginTrial begins to send the fields of a patch one by one, and returns false if there is only one.
func (r *refusedStatus) beginTrial(body []byte) bool {
	var patch struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if json.Unmarshal(body, &patch) != nil || len(patch.Status) < 2 {
		return false
	}
	r.untried = slices.Sorted(maps.Keys(patch.Status))
	for _, field := range r.untried {
		r.fields[field] = true
	}
	r.nextTrial()
	return true
}

// nextTrial goes on with the next field that has not been sent by itself.
func (r *refusedStatus) nextTrial() {
	r.trial = ""
	if len(r.untried) > 0 {
		r.trial, r.untried = r.untried[0], r.untried[1:]
		delete(r.fields, r.trial)
	}
}

// text names what was refused.
func (r *refusedStatus) text() string {
	var names []string
	for state := range r.states {
		names = append(names, "the state of "+state[1]+" in status."+state[0])
	}
	for field := range r.fields {
		names = append(names, "status."+field)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// containerStatuses returns a list of containers in a status, nil if the field is none.
func containerStatuses(st *v1.PodStatus, field string) *[]v1.ContainerStatus {
	switch field {
	case "containerStatuses":
		return &st.ContainerStatuses
	case "initContainerStatuses":
		return &st.InitContainerStatuses
	case "ephemeralContainerStatuses":
		return &st.EphemeralContainerStatuses
	}
	return nil
}
