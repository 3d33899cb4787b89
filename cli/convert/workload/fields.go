package workload

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/internal/suggest"
)

// verdict reports what becomes of a field of a workload's spec. The zero value is a field that has
// done its work, or is converted elsewhere.
type verdict struct {
	severity        report.Severity
	problem, remedy string
	// above is the greatest number that loses nothing; other values than numbers always count.
	above int64
	// unless is a value that loses nothing.
	unless any
}

const (
	replacedAtOnce = "a changed pod is pulled first and then replaced as a whole"
	rollbackRemedy = "the annotation podstead.io/rollback-after brings the last revision back that was ready"
)

// verdicts are those of the fields of workloads; a kind has those that its API has.
var verdicts = map[string]verdict{
	"template": {}, "selector": {},
	"replicas": {severity: report.Lost, problem: "one pod runs, and not %v",
		remedy: "write further pods with other names, or run them on other nodes", above: 1},
	"activeDeadlineSeconds": {}, "volumeClaimTemplates": {}, "serviceName": {}, "ordinals": {}, "manualSelector": {},
	"suspend": {}, "podReplacementPolicy": {}, "managedBy": {},
	"minReadySeconds": {severity: report.Lost, problem: "a pod counts as ready at once",
		remedy: "set successThreshold or initialDelaySeconds of its readinessProbe"},
	"strategy":                {severity: report.Note, problem: replacedAtOnce, remedy: rollbackRemedy},
	"updateStrategy":          {severity: report.Note, problem: replacedAtOnce, remedy: rollbackRemedy},
	"revisionHistoryLimit":    {severity: report.Note, problem: "the last ten revisions of a pod are kept"},
	"progressDeadlineSeconds": {severity: report.Note, problem: "has no effect", remedy: rollbackRemedy},
	"paused": {severity: report.Lost, problem: "changes of the pod take effect at once",
		unless: false},
	"podManagementPolicy": {severity: report.Note, problem: "has no effect on one pod"},
	"persistentVolumeClaimRetentionPolicy": {severity: report.Note,
		problem: "the data of a claim is kept until podstead volumes rm"},
	"backoffLimit": {severity: report.Lost,
		problem: "a failed container restarts without a limit if its restartPolicy is OnFailure, and never if it is Never",
		remedy:  "limit the time with activeDeadlineSeconds"},
	"completions": {severity: report.Lost, problem: "one pod runs, and not %v",
		remedy: "write further pods with other names", above: 1},
	"parallelism": {severity: report.Lost, problem: "one pod runs, and not %v",
		remedy: "write further pods with other names", above: 1},
	"completionMode": {severity: report.Lost, problem: "the pod has no index", unless: "NonIndexed"},
	"ttlSecondsAfterFinished": {severity: report.Lost, problem: "the completed pod stays until its manifest is removed",
		remedy: "run podstead delete"},
	"podFailurePolicy": {severity: report.Lost, problem: "has no counterpart",
		remedy: "see restartPolicyRules of containers"},
	"successPolicy":        {severity: report.Lost, problem: "has no counterpart"},
	"backoffLimitPerIndex": {severity: report.Lost, problem: "the pod has no index"},
	"maxFailedIndexes":     {severity: report.Lost, problem: "the pod has no index"},
}

// fieldsOf are the fields of each kind.
var fieldsOf = map[string][]string{
	"Deployment": {"minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit",
		"selector", "strategy", "template"},
	"ReplicaSet":            {"minReadySeconds", "replicas", "selector", "template"},
	"ReplicationController": {"minReadySeconds", "replicas", "selector", "template"},
	"DaemonSet":             {"minReadySeconds", "revisionHistoryLimit", "selector", "template", "updateStrategy"},
	"StatefulSet": {"minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "podManagementPolicy",
		"replicas", "revisionHistoryLimit", "selector", "serviceName", "template", "updateStrategy", "volumeClaimTemplates"},
	"Job": {"activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions", "managedBy",
		"manualSelector", "maxFailedIndexes", "parallelism", "podFailurePolicy", "podReplacementPolicy", "selector",
		"successPolicy", "suspend", "template", "ttlSecondsAfterFinished"},
}

// fields reports the fields of the workload's spec, and moves those that a pod has.
func (c *Converter) fields(o *object, spec, pod map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		value := spec[key]
		f := o.field("spec." + key)
		if !slices.Contains(fieldsOf[o.kind], key) {
			remedy := ""
			if meant := suggest.Nearest(key, fieldsOf[o.kind]); meant != "" {
				remedy = fmt.Sprintf("did you mean %q?", meant)
			}
			c.Report.Error(f, "is not a field of a "+o.kind, remedy)
			continue
		}
		v := verdicts[key]
		if value == nil || v.problem == "" || v.unless != nil && value == v.unless || isNumber(value) &&
			number(value) <= v.above {
			continue
		}
		problem := v.problem
		if v.above > 0 {
			problem = fmt.Sprintf(problem, value)
		}
		if v.severity == report.Note {
			c.Report.Note(f, problem, v.remedy)
		} else {
			c.Report.Lost(f, problem, v.remedy)
		}
	}
	if o.kind != "Job" {
		return
	}
	if deadline := spec["activeDeadlineSeconds"]; deadline != nil && pod["activeDeadlineSeconds"] == nil {
		pod["activeDeadlineSeconds"] = deadline
	}
	if policy := pod["restartPolicy"]; policy != "Never" && policy != "OnFailure" {
		c.Report.Error(o.field("spec.template.spec.restartPolicy"), "is missing or Always",
			"must be OnFailure or Never in a Job")
	}
}

// stateful gives the pod of a StatefulSet its name in the network and its volumes, and returns
// its claims.
func (c *Converter) stateful(o *object, spec, pod, metadata map[string]any) []podbuild.Object {
	if service, ok := spec["serviceName"].(string); ok && service != "" && pod["subdomain"] == nil {
		pod["subdomain"] = service
		if pod["hostname"] == nil {
			pod["hostname"] = metadata["name"]
		}
	}
	templates, _ := spec["volumeClaimTemplates"].([]any)
	volumes, _ := pod["volumes"].([]any)
	var claims []podbuild.Object
	for i, item := range templates {
		path := fmt.Sprintf("spec.volumeClaimTemplates[%d]", i)
		template, _ := item.(map[string]any)
		meta, _ := template["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if name == "" {
			c.Report.Error(o.field(path+".metadata.name"), "is missing", "a claim must have a name")
			continue
		}
		clean(meta)
		meta["name"] = fmt.Sprintf("%s-%s", name, metadata["name"])
		if namespace := metadata["namespace"]; namespace != nil {
			meta["namespace"] = namespace
		}
		volumes = slices.DeleteFunc(volumes, func(v any) bool {
			volume, _ := v.(map[string]any)
			return volume["name"] == name
		})
		volumes = append(volumes, map[string]any{"name": name,
			"persistentVolumeClaim": map[string]any{"claimName": meta["name"]}})
		claim, _ := template["spec"].(map[string]any)
		c.unbind(o, path+".spec", claim)
		claims = append(claims,
			o.result(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta,
				"spec": template["spec"]}, path+"."))
	}
	if len(volumes) > 0 {
		pod["volumes"] = volumes
	}
	return claims
}
