package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/cli/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/podtable"
)

// Rollout is which revision of a static pod is in effect, in podstead's own API.
type Rollout struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	UID       types.UID         `json:"uid,omitempty"`
	State     string            `json:"state"`
	Revision  string            `json:"revision"`
	Candidate string            `json:"candidate,omitempty"`
	LastGood  string            `json:"lastGood,omitempty"`
	Manifest  string            `json:"manifest,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Message   string            `json:"message,omitempty"`
	Since     time.Time         `json:"since,omitzero"`
	Deadline  time.Time         `json:"deadline,omitzero"`
	Images    map[string]string `json:"images,omitempty"`
}

// RolloutRevision is one revision of a pod that was or is in effect.
type RolloutRevision struct {
	Revision   string            `json:"revision"`
	Time       time.Time         `json:"time,omitzero"`
	Ready      bool              `json:"ready"`
	InEffect   bool              `json:"inEffect"`
	InManifest bool              `json:"inManifest"`
	Rejected   string            `json:"rejected,omitempty"`
	Images     map[string]string `json:"images,omitempty"`
}

const rolloutProgressing = "Progressing"

// The states of a rollout. In all others the rollout is in progress.
const (
	RolloutStable     = "Stable"
	RolloutRolledBack = "RolledBack"
	RolloutUndone     = "Undone"
)

// Ended reports whether nothing more happens without a change of the manifest or a command.
func (r *Rollout) Ended() bool {
	return r.State == RolloutStable || r.State == RolloutRolledBack || r.State == RolloutUndone
}

// Cause is the message on one line, with runtime errors shortened to their causes.
func (r *Rollout) Cause() string { return terminal.OneLine(podtable.Shorten(r.Message)) }

// Summary says what the rollout does, on one line.
func (r *Rollout) Summary(now time.Time) string { return r.describe(r.Cause(), now) }

// Full is Summary with runtime errors in full.
func (r *Rollout) Full(now time.Time) string { return r.describe(terminal.OneLine(r.Message), now) }

func (r *Rollout) describe(message string, now time.Time) string {
	text := r.State
	if message != "" {
		text += ": " + message
	}
	if left := r.Deadline.Sub(now); r.State == rolloutProgressing && !r.Deadline.IsZero() && left > 0 {
		text += fmt.Sprintf(" (within %s)", duration.HumanDuration(left))
	}
	return text
}

// ListRollouts returns the rollouts of all pods; none of a daemon that was not restarted
// since an upgrade and does not have them yet.
func ListRollouts(ctx context.Context, c *client.Client) ([]Rollout, error) {
	var list []Rollout
	err := c.Get(ctx, "/podstead/v1/rollouts", &list)
	if status := (*client.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil, nil
	}
	return list, err
}

// Notice returns a line about a rollout that has not ended as its manifest says, empty for
// others.
func (r *Rollout) Notice(now time.Time) string {
	if r.State == RolloutStable || r.State == rolloutProgressing && r.Deadline.IsZero() {
		return ""
	}
	return r.Namespace + "/" + r.Name + " " + r.Summary(now)
}

// PrintRollouts prints the rollouts that have not ended as their manifests say.
func PrintRollouts(ctx context.Context, c *client.Client, out io.Writer, now time.Time) error {
	list, err := ListRollouts(ctx, c)
	for i := range list {
		if notice := list[i].Notice(now); notice != "" {
			fmt.Fprintf(out, "rollout: %s\n", terminal.Visible(notice))
		}
	}
	return err
}

// FindRollout returns the rollout of a pod, nil if the daemon has none, as for a pod of an
// API server.
func FindRollout(ctx context.Context, c *client.Client, namespace, name string) (*Rollout, error) {
	list, err := ListRollouts(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Namespace == namespace && list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, nil
}

// RolloutTable returns the table of rollouts.
func RolloutTable(list []Rollout, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "STATE", "REVISION", "CANDIDATE", "LAST GOOD", "SINCE", "MESSAGE"}}
	for i := range list {
		r := &list[i]
		t.Rows = append(t.Rows, []string{r.Namespace, r.Name, r.State, terminal.OrNone(r.Revision), terminal.OrNone(r.Candidate), terminal.OrNone(r.LastGood), ageOf(r.Since, now), r.Cause()})
	}
	return t
}

// HistoryTable returns the table of a pod's revisions.
func HistoryTable(list []RolloutRevision, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"REVISION", "AGE", "STATE", "IMAGES", "REJECTED"}}
	for _, r := range list {
		var states, images []string
		for _, s := range []struct {
			set  bool
			text string
		}{{r.InEffect, "in effect"}, {r.InManifest, "manifest"}, {r.Ready, "ready"}} {
			if s.set {
				states = append(states, s.text)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.Images)) {
			images = append(images, shortImage(r.Images[name]))
		}
		t.Rows = append(t.Rows, []string{r.Revision, ageOf(r.Time, now), terminal.OrNone(strings.Join(states, ", ")), terminal.OrNone(strings.Join(images, ", ")), cmp.Or(terminal.OneLine(podtable.Shorten(r.Rejected)), "<none>")})
	}
	return t
}

// shortImage shortens the digest of an image.
func shortImage(image string) string {
	name, digest, ok := strings.Cut(image, "@")
	if !ok {
		return image
	}
	return name + "@" + ShortID(digest)
}

func ageOf(t, now time.Time) string {
	if t.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(max(now.Sub(t), 0))
}
