import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import { Code } from '../../ui/code.tsx'
import { bytesText, countText, durationText, Time } from '../../ui/format.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { fastMs, isFinished, slowMs, type Task, TaskActions, TaskState } from './parts.tsx'

/** One report: its progress, its result or why it failed. */
export function TaskPage() {
  const { taskId } = useParams({ from: '/reports/$taskId' })
  const api = useApi()
  const query = useQuery({
    queryKey: ['reports', taskId],
    queryFn: () => unwrap(api.GET('/api/reports/{taskId}', { params: { path: { taskId } } })),
    refetchInterval: ({ state: { data } }) => (data === undefined || isFinished(data) ? slowMs : fastMs),
  })
  return (
    <Loaded query={query}>
      {(task) => (
        <Page
          title={`Report ${task.reportType}`}
          about={<Link to="/reports">All reports</Link>}
          actions={<TaskActions task={task} isOwn />}
        >
          {task.error !== undefined && (
            <p className="notice wrong" role="alert">
              {task.error.message} <span className="small">({task.error.errorCode})</span>
            </p>
          )}
          <section className="card">
            <Facts of={factsOf(task)} />
          </section>
          {task.parameters !== undefined && Object.keys(task.parameters).length > 0 && (
            <Section title="Parameters">
              <Code label="Parameters">{JSON.stringify(task.parameters, null, 2)}</Code>
            </Section>
          )}
        </Page>
      )}
    </Loaded>
  )
}

function factsOf(task: Task): React.ComponentProps<typeof Facts>['of'] {
  const { format, createdAt, startedAt, completedAt, expiresAt, attempts, rowCount, sizeBytes, retryOf, taskId } = task
  const tookMs = startedAt && completedAt ? Date.parse(completedAt) - Date.parse(startedAt) : undefined
  return [
    ['State', <TaskState key="state" task={{ ...task, error: undefined }} />],
    ['Format', format],
    ['Rows', rowCount === undefined ? '–' : countText(rowCount)],
    ['Size', sizeBytes === undefined ? '–' : bytesText(sizeBytes)],
    ['Requested', <Time key="created" at={createdAt} />],
    ['Started', <Time key="started" at={startedAt} />],
    ['Ended', <Time key="completed" at={completedAt} />],
    ['Duration', tookMs === undefined ? '–' : durationText(tookMs)],
    ['Attempts', countText(attempts)],
    ['The file is kept until', <Time key="expires" at={expiresAt} />],
    ...(retryOf === undefined
      ? []
      : ([
          [
            'Retries',
            <Link key="retry" to="/reports/$taskId" params={{ taskId: retryOf }}>
              {retryOf}
            </Link>,
          ],
        ] as const)),
    ['Id', <code key="id">{taskId}</code>],
  ]
}
