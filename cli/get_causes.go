package cli

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
)

// maxFullPods is up to how many pods get reads in full to find causes if the table shows that
// all are well.
const maxFullPods = 200

// addCauses adds the causes of pods that are not well to the objects of a wide table.
func (g *getter) addCauses(ctx context.Context, l *objects.List) {
	pods, index := []v1.Pod{}, []*objects.Object{}
	for _, o := range l.Objects {
		if p, err := objects.DecodePod(o); err == nil {
			pods, index = append(pods, *p), append(index, o)
		}
	}
	causes := objects.FindCauses(ctx, g.client, pods)
	for i := range pods {
		index[i].Cause = causes.Find(&pods[i])
	}
}

// printCauses prints why pods of a table without a message are not well.
func (g *getter) printCauses(ctx context.Context, q objects.Query, l *objects.List) {
	if len(l.Objects) == 0 || len(l.Objects) > maxFullPods && allWell(l.Objects) {
		return
	}
	if q.MetadataOnly {
		q.MetadataOnly, q.Table = false, false
		var err error
		if l, err = q.List(ctx, g.client); err != nil {
			return // the table was printed, and reports what it can
		}
	}
	var pods []v1.Pod
	for _, o := range l.Objects {
		if p, err := objects.DecodePod(o); err == nil {
			pods = append(pods, *p)
		}
	}
	objects.PrintCauses(ctx, g.client, pods, g.cmd.ErrOrStderr())
}

// allWell reports whether the rows of the server's table show that all pods are ready or have
// completed, and none terminates.
func allWell(list []*objects.Object) bool {
	for _, o := range list {
		if len(o.Cells) < 3 {
			return false
		}
		ready, all, _ := strings.Cut(fmt.Sprint(o.Cells[1]), "/")
		switch o.Cells[2] {
		case "Running":
			if ready != all {
				return false
			}
		case "Completed":
		default:
			return false
		}
	}
	return true
}
