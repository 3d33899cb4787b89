package oracle

// Why podstead and an API server come to different verdicts.
const (
	clusterOnly = "refused here: only a cluster can serve it, and it would be dropped without a word"
	schedulers  = "refused here: it is for a scheduler, which would keep the pod from this node"
	otherSystem = "refused here: it is for Windows, and this node is Linux"
	nothingSaid = "refused here: the runtime would start the pod without it and say nothing"
	ownSetting  = "refused here: it is a setting of podstead's, and Kubernetes knows none of those"
	oldSetting  = "refused here: Kubernetes drops a setting of old without a word, or turns it into another"
	withdrawn   = "refused here: Kubernetes has withdrawn it, and no kubelet serves it"
	oneFile     = "refused here: kubectl would make an update of the second, and a folder has no order"
	keyTwice    = "refused here: of two keys of one name a decoder drops the first without a word"
	emptyItem   = "refused here: a decoder makes an empty string of what was left unfinished"
	namesFolder = "refused here: an API server gives a uid of its own; here it names folders"
)

// verdictDifferences are the manifests of the corpus on which the two
// disagree, with the reason. What podstead does not support yet is no
// disagreement for good, and not listed.
var verdictDifferences = map[string]string{
	"app-empty-value.yaml":                emptyItem,
	"app-key-twice.yaml":                  keyTwice,
	"app-seccomp-annotation.yaml":         oldSetting,
	"app-token-volume.yaml":               clusterOnly,
	"app-windows.yaml":                    otherSystem,
	"bind9-same-name-twice.yaml":          oneFile,
	"cassandra-ephemeral-volume.yaml":     clusterOnly,
	"ceph-rbd-volume.yaml":                clusterOnly,
	"csi-secrets-store.yaml":              clusterOnly,
	"edge-agent-must-spread.yaml":         schedulers,
	"envoy-restart-annotation-typo.yaml":  ownSetting,
	"git-repo-volume.yaml":                withdrawn,
	"keepalived-misspelt-capability.yaml": nothingSaid,
	"nvidia-gpu.yaml":                     clusterOnly,
	"pod-uid-path.yaml":                   namesFolder,
	"resource-claim.yaml":                 clusterOnly,
	"traefik-service-account.yaml":        clusterOnly,
}
