package hostile

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// claimPod is a pod of a claim, whose files belong to a group. Its container runs a command.
const claimPod = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: deep}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 65534}
  containers:
    - name: main
      image: IMAGE
      command: [sh, -c, COMMAND]
      SECURITY
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: deep}}]
`

// deepTree makes 3,600 directories, each in the one before it, with names of 250 bytes: a new one around all of them,
// again and again, so that no path is long.
const deepTree = `cd /data; name=$(head -c 250 /dev/zero | tr '\\0' d); mkdir tree; i=0; while [ $i -lt 3600 ]; do mkdir new && mv tree new/$name && mv new tree || exit 1; i=$((i+1)); done; touch done; sleep 100000`

// deepClaim starts a pod of a claim in which a container has made a very deep tree: giving it to the pod's group takes
// no memory, and the pod waits with an error that names the claim.
func deepClaim(n *hostileNode) {
	write := func(name, command string) {
		text := claimPod
		for _, r := range [][2]string{{"NAME", name}, {"COMMAND", strconv.Quote(command)}} {
			text = strings.ReplaceAll(text, r[0], r[1])
		}
		n.writePod("claim", text)
	}
	write("deep", deepTree)
	n.AwaitRunning("deep")
	n.Await("the tree is deep", func() error {
		found, err := filepath.Glob(filepath.Join(n.Root, "volumes/default/deep/done"))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("it is not done")
		}
		return err
	})
	n.resetPeak()
	write("again", "sleep 100000")
	n.AwaitGone("deep")
	n.AwaitWaiting("again", "FailedMount", "volumes/default/deep", "levels deep")
	n.RemoveManifest("claim.yaml")
	n.AwaitGone("again")
}
