package podorder

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of pods that wait for others, and of the event of an annotation that has no
// effect.
const (
	// ReasonNotReady: a pod is not Ready yet that this one depends on.
	ReasonNotReady = "DependencyNotReady"
	// ReasonNotFound: no manifest declares a pod that this one depends on.
	ReasonNotFound = "DependencyNotFound"
	// ReasonCycle: the pod depends on itself, by way of others.
	ReasonCycle = "DependencyCycle"
	// ReasonIgnored: the pod is one of an API server.
	ReasonIgnored = "DependencyIgnored"
	// ReasonDependents: the pod ends after those that depend on it.
	ReasonDependents = "WaitingForDependents"
)

// Bounds of messages: how many pods one names, and how much of each pod's state.
const (
	maxNamed = 3
	maxState = 160
)

// Block is why a pod may not start yet.
type Block struct {
	status.Cause
	// Event is the message without what changes while the pod waits.
	Event string
	// Faulty: a manifest has to change before the pod can start.
	Faulty bool
}

// dependency is what is known of a pod that another one depends on.
type dependency struct {
	uid  types.UID
	name string
	// known: a manifest declares the pod. runs: its present run has begun and is not
	// ending.
	known, runs bool
	// status is the published one, nil before the first.
	status *v1.PodStatus
}

// met reports whether the dependency allows the start.
func (d dependency) met() bool {
	return d.known && d.status != nil &&
		(d.status.Phase == v1.PodSucceeded || d.runs && d.status.Phase == v1.PodRunning &&
			readyCondition(d.status).Status == v1.ConditionTrue)
}

func readyCondition(st *v1.PodStatus) v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == v1.PodReady {
			return st.Conditions[i]
		}
	}
	return v1.PodCondition{}
}

// Waits reports whether a pod waits for pods that it depends on.
func Waits(st *v1.PodStatus) bool {
	return st.Reason == ReasonNotReady || st.Reason == ReasonNotFound || st.Reason == ReasonCycle
}

// cycleBlock blocks a pod that depends on itself. way begins and ends with the pod.
func cycleBlock(way []string) *Block {
	text := "depends on itself through " + strings.Join(way, " ▸ ")
	if len(way) > 2*maxNamed+1 {
		text = fmt.Sprintf("depends on itself through %s ▸ … (%d pods) … ▸ %s", strings.Join(way[:maxNamed], " ▸ "),
			len(way)-1, strings.Join(way[len(way)-maxNamed:], " ▸ "))
	}
	text += "; remove one of these dependencies from the annotation " + podinfo.AnnotationDependsOn
	return &Block{Cause: status.Cause{Reason: ReasonCycle, Message: text}, Event: text, Faulty: true}
}

// startBlock returns why a pod with the dependencies may not start, nil if it may.
// complete: all sources have delivered their pods.
func startBlock(dependencies []dependency, complete bool) *Block {
	var states, names []string
	missing := false
	for _, d := range dependencies {
		if d.met() {
			continue
		}
		names = append(names, d.name)
		switch {
		case d.known:
			states = append(states, fmt.Sprintf("pod %s, which is not Ready: %s", d.name, state(d)))
		case complete:
			missing = true
			states = append(states, fmt.Sprintf("pod %s, which no manifest of this node declares", d.name))
		default:
			states = append(states, fmt.Sprintf("pod %s, which is not known yet: not all sources have delivered their manifests",
				d.name))
		}
	}
	if len(states) == 0 {
		return nil
	}
	block := &Block{
		Cause: status.Cause{Reason: ReasonNotReady, Message: "waits for " + list(states, "; and for ")},
		Event: "Waiting for " + list(names, ", "),
	}
	if missing {
		remedy := "; add the manifest, or correct the annotation " + podinfo.AnnotationDependsOn
		block.Reason, block.Faulty = ReasonNotFound, true
		block.Message += remedy
		block.Event = block.Message
	}
	return block
}

// list joins texts, the first ones if there are many.
func list(texts []string, separator string) string {
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], separator) + fmt.Sprintf(" (and %d more)", more)
	}
	return strings.Join(texts, separator)
}

// state returns why a known dependency is not met.
func state(d dependency) string {
	st := d.status
	switch {
	case st == nil:
		return "it has not started"
	case Waits(st):
		return "it waits for its own dependencies (" + st.Reason + ")"
	case st.Phase == v1.PodFailed:
		return "it has failed" + strings.TrimSuffix(": "+short(strings.TrimSpace(st.Reason+" "+st.Message)), ": ")
	case st.Reason != "":
		return strings.TrimSuffix(short(st.Reason+": "+st.Message), ": ")
	case !d.runs:
		return "it is terminating or about to start"
	}
	for _, containers := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range containers {
			if w := containers[i].State.Waiting; w != nil {
				if w.Reason == "" { // as in the kubelet, between its creation and its start
					return fmt.Sprintf("container %s is starting", containers[i].Name)
				}
				return fmt.Sprintf("container %s is waiting: %s", containers[i].Name, w.Reason)
			}
		}
	}
	if message := readyCondition(st).Message; message != "" {
		return short(message)
	}
	return "it is starting"
}

// short returns the beginning of a text.
func short(text string) string {
	if len(text) <= maxState {
		return text
	}
	return strings.ToValidUTF8(text[:maxState], "") + "…"
}
