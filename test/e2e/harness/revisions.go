package harness

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// AwaitRevision waits until exactly the revision with the word runs.
func (n *Node) AwaitRevision(name, word string) Instance {
	n.T.Helper()
	var got Instance
	n.Await(fmt.Sprintf("revision %q of pod %q runs", word, name), func() error {
		found, err := n.Running(name)
		if err != nil {
			return err
		}
		var ok bool
		if got, ok = found["main"]; !ok {
			return fmt.Errorf("running: %v", found)
		}
		has, err := n.Runtime.CRI.Exec(n.T.Context(), got.ID, "sh", "-c", "echo -n $WORD")
		if err == nil && has != word {
			err = fmt.Errorf("WORD is %q", has)
		}
		return err
	})
	return got
}

// AwaitExactly waits until the node has exactly count ready sandboxes and running containers,
// with one sandbox per pod.
func (n *Node) AwaitExactly(count int) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%d sandboxes and containers, no more", count), func() error {
		sandboxes, err := n.Runtime.CRI.Sandboxes(n.T.Context(), "", "")
		if err != nil {
			return err
		}
		ready := map[string]int{}
		ids := map[string]bool{}
		for _, s := range sandboxes {
			if n.Owns(s.Metadata.Name) && s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				ready[s.Metadata.Name]++
				ids[s.Id] = true
				if ready[s.Metadata.Name] > 1 {
					return fmt.Errorf("%s has %d sandboxes", s.Metadata.Name, ready[s.Metadata.Name])
				}
			}
		}
		containers, err := n.Runtime.CRI.Containers(n.T.Context(), "", "")
		if err != nil {
			return err
		}
		running := 0
		for _, c := range containers {
			if ids[c.PodSandboxId] && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				running++
			}
		}
		if len(ready) != count || running != count {
			return fmt.Errorf("%d sandboxes, %d containers: %v", len(ready), running, ready)
		}
		return nil
	})
}
