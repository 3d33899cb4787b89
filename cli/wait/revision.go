package wait

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// settleTime is the time the daemon gets to read a changed file: until then a fault that it
// reports may be one of the previous content.
const settleTime = 3 * time.Second

// SetRevisions waits for the current revisions of the targets' manifests, and of the pods of
// the given files.
func (w *Waiter) SetRevisions(ctx context.Context, files []string) error {
	w.Verb = "is running the revision in its manifest"
	node, err := objects.NodeName(ctx, w.Client)
	if err != nil {
		return err
	}
	given := files
	files = slices.Clone(files)
	for _, t := range w.Targets {
		file, err := manifestFile(ctx, w.Client, t)
		if err != nil {
			return err
		}
		pods, err := revisionsOf(ctx, file, node)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if manifest.BaseName(p) == t.Name || p.Name == t.Name {
				t.Namespace, t.revision = p.Namespace, p.Annotations[podinfo.AnnotationHash]
				t.Condition = hasStableRevision(t.revision)
			}
		}
		if t.Condition == nil {
			return fmt.Errorf("%s no longer contains pod %q; wait for its deletion with podstead wait %s --for=delete", file,
				t.Name, t.Name)
		}
		files = append(files, file)
	}
	for _, file := range given {
		pods, err := revisionsOf(ctx, file, node)
		if err != nil {
			return err
		}
		for _, p := range pods {
			hash := p.Annotations[podinfo.AnnotationHash]
			w.Targets = append(w.Targets, &Target{Namespace: p.Namespace, Name: p.Name, Condition: hasStableRevision(hash),
				revision: hash})
		}
	}
	w.check = w.checkSettled(func(ctx context.Context) error { return checkFaults(ctx, w.Client, files) })
	return nil
}

// manifestFile returns the file that contains a pod, as the daemon knows it.
func manifestFile(ctx context.Context, c *client.Client, t *Target) (string, error) {
	sources, err := c.Manifests(ctx)
	if err != nil {
		return "", err
	}
	q := objects.Query{Kind: objects.PodKind(), Namespace: t.Namespace, Names: []string{t.Name}}
	l, err := q.List(ctx, c)
	if err != nil {
		return "", err
	}
	if len(l.Objects) == 0 {
		return "", fmt.Errorf("pod %q not found%s; for a new pod specify its file: podstead wait -f FILE --for=revision",
			t.Name, objects.InNamespace(t.Namespace))
	}
	p, err := objects.DecodePod(l.Objects[0])
	if err != nil {
		return "", err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if !slices.Contains(u.Pods, p.Namespace+"/"+manifest.BaseName(p)) {
				continue
			}
			if s.Source != string(manifest.SourceFile) {
				return "", fmt.Errorf("pod %q comes from %s, whose current revision only the daemon knows; wait for it with "+
					"podstead rollout status %s, or for the one with a given annotation kubernetes.io/config.hash with "+
					"--for=revision=HASH", t.Name, u.Name, t.Name)
			}
			return u.Name, nil
		}
	}
	return "", fmt.Errorf("pod %q is not in any manifest; wait for it with --for=ready or --for=delete", t.Name)
}

// revisionsOf returns the pods of a file as the daemon would create them now.
func revisionsOf(ctx context.Context, file, node string) ([]*v1.Pod, error) {
	data, err := manifestfile.ReadFile(ctx, file)
	if err != nil {
		return nil, err
	}
	load := func(mode manifest.Mode) (manifest.Content, manifest.Faults) {
		return manifest.NewLoader(node, mode).Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: file, Data: data})
	}
	// Unknown fields are not part of the revision; whether they are accepted depends
	// on the daemon's mode, and the daemon reports it. They may explain other faults.
	content, faults := load(manifest.ModeIgnore)
	if faults.Fatal() {
		_, faults = load(manifest.ModeStrict)
		return nil, fmt.Errorf("manifest is invalid, the daemon keeps the last good revision:\n%w", faults)
	}
	var pods []*v1.Pod
	for _, d := range content.Documents {
		pods = append(pods, d.Pod)
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s contains no pod", file)
	}
	return pods, nil
}

// checkFaults returns an error if the daemon reports faults in one of the files.
func checkFaults(ctx context.Context, c *client.Client, files []string) error {
	sources, err := c.Manifests(ctx)
	if err != nil {
		return err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if len(u.Faults) > 0 && slices.Contains(files, u.Name) {
				return fmt.Errorf("manifest is invalid, the daemon keeps the last good revision:\n%s", strings.Join(u.Faults, "\n"))
			}
		}
	}
	return nil
}
