import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { countText } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, Failed, Loading, messageOf } from '../../ui/states.tsx'
import { BulkActions } from './bulk.tsx'
import { CsvButton } from './csv.tsx'
import { allows, listKey, pageSize, useCount } from './data.ts'
import { Grid } from './grid.tsx'
import { type LongList, useLongList } from './long-list.ts'
import type { Field, Resource, Row } from './model.ts'
import { WithResource } from './resources.tsx'
import type { TableSearch } from './route.ts'
import { Toolbar } from './toolbar.tsx'

/** The table of one resource. */
export function Records() {
  const { resource: name } = useParams({ from: '/records/$resource' })
  return <WithResource name={name}>{(resource) => <RecordTable key={name} resource={resource} />}</WithResource>
}

/** Returns the path of a list with a table's filters, search text and sort order. */
function listPath({ path }: Resource, { q, sort, filters = [] }: TableSearch, limit: number): string {
  const query = new URLSearchParams(filters)
  if (q) query.set('q', q)
  if (sort) query.set('sort', sort)
  query.set('limit', String(limit))
  return `${path}?${query}`
}

/** Returns a table's columns: those that the user has chosen or, by default, the first eight. */
function columnsOf({ fields }: Resource, chosen: readonly string[] | undefined): Field[] {
  const listed = fields.filter(({ isListed }) => isListed)
  if (chosen) return listed.filter(({ name }) => chosen.includes(name))
  const usual = listed.filter(({ name }) => name !== 'updatedAt' && name !== 'createdBy')
  return usual.slice(0, 8)
}

function RecordTable({ resource }: { resource: Resource }) {
  const { name, title, noun, can } = resource
  const session = useSession()
  const isAllowed = allows(session, can.list)
  return (
    <Page title={title} actions={<TableActions resource={resource} />}>
      {isAllowed ? <Rows resource={resource} /> : <Empty title={`You may not read ${name}`} />}
      {!isAllowed && allows(session, can.create) && (
        <p>
          You may still{' '}
          <Link to="/records/$resource/new" params={{ resource: name }}>
            create a {noun}
          </Link>
          .
        </p>
      )}
    </Page>
  )
}

function TableActions({ resource: { name, title, noun, can } }: { resource: Resource }) {
  const session = useSession()
  return (
    <>
      {allows(session, can.listDeleted) && (
        <Link className="button" to="/records/$resource/deleted" params={{ resource: name }}>
          Deleted {title.toLowerCase()}
        </Link>
      )}
      {allows(session, can.create) && (
        <Link className="button primary" to="/records/$resource/new" params={{ resource: name }}>
          New {noun}
        </Link>
      )}
    </>
  )
}

const noneSelected: ReadonlySet<string | number> = new Set()

function Rows({ resource }: { resource: Resource }) {
  const { name } = resource
  const search = useSearch({ from: '/records/$resource' })
  const navigate = useNavigate({ from: '/records/$resource' })
  const change = (changes: Partial<TableSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true })
  const list = useLongList<Row>(listKey(name), listPath(resource, search, pageSize))
  const count = useCount(name, listPath(resource, search, 1))
  const [selected, setSelected] = useState(noneSelected)
  const total = count.data ?? null
  const open = (row: Row) =>
    void navigate({ to: '/records/$resource/row/$id', params: { resource: name, id: String(row.id) } })
  return (
    <>
      <Toolbar {...{ resource, search, columns: columnsOf(resource, search.columns) }} onChange={change} />
      <div className="row between">
        <p className="quiet small" role="status">
          {list.isPending || list.error !== null ? '' : countLine(total, list)}
        </p>
        <CsvButton resource={resource} path={listPath(resource, search, 200)} total={total} />
      </div>
      {selected.size > 0 && (
        <BulkActions resource={resource} ids={[...selected]} onDone={(ids) => setSelected(new Set(ids))} />
      )}
      <ListState {...{ resource, list, search }} onChange={change} />
      {list.count > 0 && (
        <Grid
          {...{ label: resource.title, list, total, selected, sort: search.sort, sorts: resource.sorts }}
          columns={columnsOf(resource, search.columns)}
          onSort={(sort) => change({ sort })}
          onSelect={setSelected}
          onOpen={open}
        />
      )}
    </>
  )
}

interface ListStateProps {
  resource: Resource
  list: LongList<Row>
  search: TableSearch
  onChange: (changes: Partial<TableSearch>) => void
}

/** Shows that a list is loading for the first time, could not be read, or is empty. */
function ListState({ resource: { name, noun, title, can }, list, search, onChange }: ListStateProps) {
  const session = useSession()
  if (list.error !== null)
    return list.count === 0 ? (
      <Failed error={list.error} onRetry={list.retry} />
    ) : (
      <p className="notice warn row" role="alert">
        Some rows could not be read: {messageOf(list.error)}
        <Button isCompact onPress={list.retry}>
          Try again
        </Button>
      </p>
    )
  if (list.isPending && list.count === 0) return <Loading />
  if (list.count > 0 || list.hasMore) return null
  if (search.q !== undefined || search.filters !== undefined)
    return (
      <Empty title="Nothing matches">
        <Button onPress={() => onChange({ q: undefined, filters: undefined })}>Remove all filters</Button>
      </Empty>
    )
  return (
    <Empty title={`There are no ${title.toLowerCase()} yet`}>
      {allows(session, can.create) && (
        <Link to="/records/$resource/new" params={{ resource: name }}>
          Create the first {noun}
        </Link>
      )}
    </Empty>
  )
}

function countLine(total: number | null, { count, hasMore }: LongList<Row>): string {
  if (total !== null) return `${countText(total)} ${total === 1 ? 'row' : 'rows'}`
  return hasMore ? `${countText(count)} rows loaded` : `${countText(count)} rows`
}
