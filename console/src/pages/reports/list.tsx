import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { useSession } from '../../session/session.ts'
import { SelectField } from '../../ui/fields.tsx'
import { bytesText, countText, Time } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { fastMs, isFinished, slowMs, type Task, TaskActions, TaskState, useReportTypes } from './parts.tsx'
import { Queues } from './queues.tsx'
import { type ReportsSearch, taskStates } from './route.ts'

/** The list of reports, with the progress of those in progress. */
export function ReportList() {
  const { may } = useSession()
  const search = useSearch({ from: '/reports' })
  const api = useApi()
  const owner = may('admin') ? search.owner : undefined
  const request = (
    <Link to="/reports/new" className="button primary">
      Request a report
    </Link>
  )
  return (
    <Page
      title="Reports"
      about="Files that the service makes from its data in the background."
      actions={may('reports:write') && request}
    >
      <Filters search={{ ...search, owner }} />
      <Paged
        queryKey={['reports', 'list', { ...search, owner }]}
        read={(cursor) => {
          const { status, type } = search
          const filters = { ...(owner && { owner }), ...(status && { status }), ...(type && { reportType: type }) }
          return unwrapWithHeaders(
            api.GET('/api/reports', { params: { query: { limit: 50, ...filters, ...(cursor && { cursor }) } } }),
          )
        }}
        refetchInterval={(rows: readonly Task[]) => (rows.every(isFinished) ? slowMs : fastMs)}
      >
        {(rows) => {
          if (rows.length === 0)
            return (
              <Empty title={search.status || search.type ? 'No report matches' : 'There are no reports yet'}>
                {may('reports:write') && request}
              </Empty>
            )
          return <List rows={rows} isOfAll={owner === 'all'} />
        }}
      </Paged>
      {may('admin') && <Queues />}
    </Page>
  )
}

function Filters({ search }: { search: ReportsSearch }) {
  const { may } = useSession()
  const navigate = useNavigate()
  const { data: types = [] } = useReportTypes()
  const set = (more: ReportsSearch) => void navigate({ to: '/reports', search: { ...search, ...more }, replace: true })
  return (
    <search className="filters">
      {may('admin') && (
        <SelectField
          label="Owner"
          value={search.owner ?? ''}
          onChange={(owner) => set({ owner: owner === 'all' ? 'all' : undefined })}
          options={[
            { value: '', label: 'You' },
            { value: 'all', label: 'Everyone' },
          ]}
        />
      )}
      <SelectField
        label="State"
        value={search.status ?? ''}
        onChange={(status) => set({ status: status === '' ? undefined : status })}
        options={[
          { value: '', label: 'Any' },
          ...taskStates.map((value) => ({ value, label: value.replace('_', ' ') })),
        ]}
      />
      <SelectField
        label="Type"
        value={search.type ?? ''}
        onChange={(type) => set({ type: type || undefined })}
        options={[
          { value: '', label: 'Any' },
          ...types.map(({ reportType, title }) => ({ value: reportType, label: title })),
        ]}
      />
    </search>
  )
}

function List({ rows, isOfAll }: { rows: readonly Task[]; isOfAll: boolean }) {
  const { person } = useSession()
  const isOwn = ({ ownerClient, ownerSubject }: Task) =>
    !isOfAll || (ownerClient === 'console' && ownerSubject === person.id)
  const owner: Column<Task> = {
    title: 'Owner',
    cell: (task) =>
      isOwn(task) ? (
        'You'
      ) : (
        <>
          <code>{task.ownerClient}</code>
          {task.ownerSubject !== task.ownerClient && <span className="quiet small"> for user {task.ownerSubject}</span>}
        </>
      ),
  }
  const columns: Column<Task>[] = [
    {
      title: 'Report',
      cell: ({ taskId, reportType, format, _links: links }) => (
        <>
          {Object.keys(links).length === 0 ? (
            reportType
          ) : (
            <Link to="/reports/$taskId" params={{ taskId }}>
              {reportType}
            </Link>
          )}
          <div className="quiet small">{format}</div>
        </>
      ),
    },
    ...(isOfAll ? [owner] : []),
    { title: 'State', cell: (task) => <TaskState task={task} /> },
    { title: 'Rows', isNumber: true, cell: ({ rowCount }) => (rowCount === undefined ? '–' : countText(rowCount)) },
    { title: 'Size', isNumber: true, cell: ({ sizeBytes }) => (sizeBytes === undefined ? '–' : bytesText(sizeBytes)) },
    { title: 'Requested', cell: ({ createdAt }) => <Time at={createdAt} isRelative /> },
    { title: 'Actions', cell: (task) => <TaskActions task={task} isOwn={isOwn(task)} /> },
  ]
  return <Table label="Reports" columns={columns} rows={rows} keyOf={({ taskId }) => taskId} />
}
