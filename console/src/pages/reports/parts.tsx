import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import { useDownload } from '../../api/download.ts'
import type { components } from '../../api/schema.d.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { Badge } from '../../ui/page.tsx'
import { messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'

export type Task = components['schemas']['Task']
export type ReportType = components['schemas']['ReportType']

/** The polling intervals in ms, while a task is running and otherwise. */
export const [fastMs, slowMs] = [1_500, 15_000]

export const isFinished = ({ status }: Task): boolean => status === 'completed' || status === 'failed'

/** Reads the report types. */
export function useReportTypes() {
  const api = useApi()
  return useQuery({
    queryKey: ['report-types'],
    queryFn: () => unwrap(api.GET('/api/report-types')),
    staleTime: 600_000,
  })
}

/** The status of a task, and its progress while it is running. */
export function TaskState({ task: { status, progress, error, reportType } }: { task: Task }) {
  if (status === 'completed') return <Badge tone="good">completed</Badge>
  if (status === 'failed')
    return (
      <>
        <Badge tone="wrong">failed</Badge>
        {error !== undefined && <div className="quiet small">{error.message}</div>}
      </>
    )
  if (status === 'pending') return <Badge tone="info">waiting</Badge>
  return (
    <>
      <progress max={100} value={progress} aria-label={`Progress of the report ${reportType}`} />
      <div className="quiet small">{progress}%</div>
    </>
  )
}

interface ActionProps {
  task: Task
  /** Whether the report is the user's own. Administrators are not offered the results of other users' reports. */
  isOwn: boolean
}

/** The actions that the user may take on a task. */
export function TaskActions({ task, isOwn }: ActionProps) {
  const { may } = useSession()
  const [isDeleting, setDeleting] = useState(false)
  const { download, active } = useDownload()
  const { cancel, retry, remove } = useTaskChanges(task)
  const { taskId, reportType, format, _links: links } = task
  if (Object.keys(links).length === 0) return <span className="quiet small">Only its owner may open it</span>
  return (
    <div className="row">
      {isOwn && 'download' in links && (
        <Button
          isCompact
          isDisabled={active !== null}
          onPress={() => void download(`/api/reports/${taskId}/download`, `${reportType}.${format}`)}
        >
          {active === null ? 'Download' : 'Downloading …'}
        </Button>
      )}
      {may('reports:write') && (
        <>
          {'cancel' in links && (
            <Button isCompact isDisabled={cancel.isPending} onPress={() => cancel.mutate()}>
              Cancel
            </Button>
          )}
          {'retry' in links && (
            <Button isCompact isDisabled={retry.isPending} onPress={() => retry.mutate()}>
              Retry
            </Button>
          )}
          {'delete' in links && (
            <Button isCompact look="danger" onPress={() => setDeleting(true)}>
              Delete
            </Button>
          )}
        </>
      )}
      <Confirm
        title="Delete the report?"
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete the report"
        isDangerous
        onConfirm={remove}
      >
        <p>The task and its file are removed. This cannot be undone.</p>
      </Confirm>
    </div>
  )
}

function useTaskChanges({ taskId }: Task) {
  const api = useApi()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const params = { path: { taskId } }
  const refresh = () => queries.invalidateQueries({ queryKey: ['reports'] })
  const common = { onError: (error: unknown) => toast(messageOf(error)), onSettled: refresh }
  return {
    cancel: useMutation({
      mutationFn: () => unwrap(api.POST('/api/reports/{taskId}/cancel', { params })),
      ...common,
    }),
    retry: useMutation({
      mutationFn: () => unwrap(api.POST('/api/reports/{taskId}/retry', { params })),
      onSuccess: (task) => navigate({ to: '/reports/$taskId', params: { taskId: task.taskId } }),
      ...common,
    }),
    remove: async () => {
      await unwrap(api.DELETE('/api/reports/{taskId}', { params }))
      await navigate({ to: '/reports' })
      await refresh()
    },
  }
}
