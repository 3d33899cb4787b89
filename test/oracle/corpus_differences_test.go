package oracle

// Why podstead and an API server come to different verdicts.
const (
	clusterOnly = "refused here: only a cluster can serve it, and it would be dropped without a word"
	nothingSaid = "refused here: the runtime would start the pod without it and say nothing"
	ownSetting  = "refused here: it is a setting of podstead's, and Kubernetes knows none of those"
)

// verdictDifferences are the manifests of the corpus on which the two
// disagree, with the reason. What podstead does not support yet is no
// disagreement for good, and not listed.
var verdictDifferences = map[string]string{
	"cassandra-ephemeral-volume.yaml":     clusterOnly,
	"traefik-service-account.yaml":        clusterOnly,
	"nvidia-gpu.yaml":                     clusterOnly,
	"keepalived-misspelt-capability.yaml": nothingSaid,
	"envoy-restart-annotation-typo.yaml":  ownSetting,
}
