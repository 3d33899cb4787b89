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

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/podtable"
)

// RolloutCause is the message on one line, with runtime errors shortened to their causes.
func RolloutCause(r *api.Rollout) string { return terminal.OneLine(podtable.Shorten(r.Message)) }

// RolloutSummary reports what the rollout does, on one line.
func RolloutSummary(r *api.Rollout, now time.Time) string {
	return describeRollout(r, RolloutCause(r), now)
}

// FullRollout is RolloutSummary with runtime errors in full.
func FullRollout(r *api.Rollout, now time.Time) string {
	return describeRollout(r, terminal.OneLine(r.Message), now)
}

func describeRollout(r *api.Rollout, message string, now time.Time) string {
	text := string(r.State)
	if message != "" {
		text += ": " + message
	}
	if left := r.Deadline.Sub(now); r.State == api.RolloutProgressing && !r.Deadline.IsZero() && left > 0 {
		text += fmt.Sprintf(" (within %s)", duration.HumanDuration(left))
	}
	return text
}

// ListRollouts returns the rollouts of all pods; none of a daemon that was not restarted
// since an upgrade and does not have them yet.
func ListRollouts(ctx context.Context, c *client.Client) ([]api.Rollout, error) {
	list, err := c.Rollouts(ctx)
	if status := (*client.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil, nil
	}
	return list, err
}

// RolloutNotice returns a line about a rollout that has not ended as its manifest specifies, empty for
// others.
func RolloutNotice(r *api.Rollout, now time.Time) string {
	if r.State == api.RolloutStable || r.State == api.RolloutProgressing && r.Deadline.IsZero() {
		return ""
	}
	return r.Namespace + "/" + r.Name + " " + RolloutSummary(r, now)
}

// PrintRollouts prints the rollouts that have not ended as their manifests specify.
func PrintRollouts(ctx context.Context, c *client.Client, out io.Writer, now time.Time) error {
	list, err := ListRollouts(ctx, c)
	for i := range list {
		if notice := RolloutNotice(&list[i], now); notice != "" {
			fmt.Fprintf(out, "rollout: %s\n", terminal.Visible(notice))
		}
	}
	return err
}

// FindRollout returns the rollout of a pod, nil if the daemon has none, as for a pod of an
// API server.
func FindRollout(ctx context.Context, c *client.Client, namespace, name string) (*api.Rollout, error) {
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
func RolloutTable(list []api.Rollout, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "STATE", "REVISION", "CANDIDATE", "LAST GOOD", "SINCE",
		"MESSAGE"}}
	for i := range list {
		r := &list[i]
		t.Rows = append(t.Rows, []string{r.Namespace, r.Name, string(r.State), terminal.OrNone(r.Revision),
			terminal.OrNone(r.Candidate), terminal.OrNone(r.LastGood), ageOf(r.Since, now), RolloutCause(r)})
	}
	return t
}

// HistoryTable returns the table of a pod's revisions.
func HistoryTable(list []api.RolloutRevision, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"REVISION", "AGE", "STATE", "IMAGES", "MESSAGE"}}
	for _, r := range list {
		var states, images []string
		for _, s := range []struct {
			set  bool
			text string
		}{{r.InEffect, "in effect"}, {r.InManifest, "manifest"}, {r.Ready, "ready"}, {r.Rejected != "", "rejected"},
			{r.Candidate != "", strings.ToLower(string(r.Candidate))}} {
			if s.set {
				states = append(states, s.text)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.Images)) {
			images = append(images, shortImage(r.Images[name]))
		}
		message := terminal.OneLine(podtable.Shorten(cmp.Or(r.Message, r.Rejected)))
		t.Rows = append(t.Rows, []string{r.Revision, ageOf(r.Time, now), terminal.OrNone(strings.Join(states, ", ")),
			terminal.OrNone(strings.Join(images, ", ")), terminal.OrNone(message)})
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
