import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { CheckField } from '../../ui/fields.tsx'
import { countText } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, Failed, Loading } from '../../ui/states.tsx'
import { BulkActions } from './bulk.tsx'
import { CsvButton } from './csv.tsx'
import { allows, listKey, pageSize, useCount, usePages } from './data.ts'
import { FilterBuilder } from './filters.tsx'
import { Grid } from './grid.tsx'
import type { Field, Resource, Row } from './model.ts'
import { WithResource } from './resources.tsx'
import type { TableSearch } from './route.ts'

/** The table of one resource. */
export function Records() {
  const { resource: name } = useParams({ from: '/records/$resource' })
  return <WithResource name={name}>{(resource) => <RecordTable key={name} resource={resource} />}</WithResource>
}

/** Returns the path of a list with the filters, the search text and the order of a table. */
function listPath({ path }: Resource, { q, sort, filters = [] }: TableSearch, limit: number): string {
  const query = new URLSearchParams(filters)
  if (q) query.set('q', q)
  if (sort) query.set('sort', sort)
  query.set('limit', String(limit))
  return `${path}?${query}`
}

/** Returns the columns of a table: the chosen ones, or the first fields of the list. */
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

function TableActions({ resource: { name, noun, can } }: { resource: Resource }) {
  const session = useSession()
  return (
    <>
      {allows(session, can.listDeleted) && (
        <Link className="button" to="/records/$resource/deleted" params={{ resource: name }}>
          Deleted
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

const noRows: Row[] = []
const noneSelected: ReadonlySet<string | number> = new Set()

function Rows({ resource }: { resource: Resource }) {
  const { name, title } = resource
  const search = useSearch({ from: '/records/$resource' })
  const navigate = useNavigate({ from: '/records/$resource' })
  const change = (changes: Partial<TableSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true })
  const path = listPath(resource, search, pageSize)
  const pages = usePages<Row>(listKey(name), path)
  const count = useCount(name, listPath(resource, search, 1))
  const [selected, setSelected] = useState(noneSelected)
  const rows = pages.data?.pages.flatMap(({ items }) => items) ?? noRows
  const { fetchNextPage } = pages
  const more = useCallback(() => void fetchNextPage(), [fetchNextPage])
  const open = (row: Row) =>
    void navigate({ to: '/records/$resource/row/$id', params: { resource: name, id: String(row.id) } })
  const isNarrowed = search.q !== undefined || (search.filters?.length ?? 0) > 0
  const columns = columnsOf(resource, search.columns)
  return (
    <>
      <Toolbar {...{ resource, search, columns }} onChange={change} />
      <div className="row between">
        <p className="quiet small" role="status">
          {countLine(count.data ?? null, rows.length, pages.hasNextPage)}
        </p>
        <CsvButton resource={resource} path={listPath(resource, search, 200)} total={count.data ?? null} />
      </div>
      {selected.size > 0 && (
        <BulkActions resource={resource} ids={[...selected]} onDone={() => setSelected(noneSelected)} />
      )}
      {pages.isPending && <Loading />}
      {pages.isError && <Failed error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isSuccess && rows.length === 0 && !pages.hasNextPage && (
        <Empty title={isNarrowed ? 'Nothing matches' : `There are no ${title.toLowerCase()} yet`}>
          {isNarrowed && (
            <Button onPress={() => change({ q: undefined, filters: undefined })}>Remove all filters</Button>
          )}
        </Empty>
      )}
      {rows.length > 0 && (
        <Grid
          {...{ label: title, columns, rows, sort: search.sort, sorts: resource.sorts, selected }}
          total={count.data ?? null}
          onSort={(sort) => change({ sort })}
          onSelect={setSelected}
          onOpen={open}
          onMore={more}
          hasMore={pages.hasNextPage && !pages.isFetchNextPageError}
          isLoading={pages.isFetching}
        />
      )}
    </>
  )
}

function countLine(total: number | null, loaded: number, hasMore: boolean): string {
  if (total !== null) return `${countText(total)} ${total === 1 ? 'row' : 'rows'}`
  return hasMore ? `${countText(loaded)} rows loaded` : `${countText(loaded)} rows`
}

interface ToolbarProps {
  resource: Resource
  search: TableSearch
  columns: readonly Field[]
  onChange: (changes: Partial<TableSearch>) => void
}

function Toolbar({ resource, search, columns, onChange }: ToolbarProps) {
  const [isChoosing, setChoosing] = useState(false)
  const listed = resource.fields.filter(({ isListed }) => isListed)
  const shown = columns.map(({ name }) => name)
  return (
    <div className="stack tight">
      <div className="row">
        {resource.hasSearch && (
          <SearchBox key={resource.name} text={search.q ?? ''} onChange={(q) => onChange({ q })} />
        )}
        <FilterBuilder
          resource={resource}
          filters={search.filters ?? []}
          onChange={(filters) => onChange({ filters: filters.length > 0 ? filters : undefined })}
        />
        <Button isCompact aria-expanded={isChoosing} onPress={() => setChoosing(!isChoosing)}>
          Columns
        </Button>
      </div>
      {isChoosing && (
        <fieldset className="card row">
          <legend className="visually-hidden">Columns</legend>
          {listed.map(({ name, label }) => (
            <CheckField
              key={name}
              label={label}
              isSelected={shown.includes(name)}
              isDisabled={shown.length === 1 && shown.includes(name)}
              onChange={(isSelected) =>
                onChange({ columns: isSelected ? [...shown, name] : shown.filter((one) => one !== name) })
              }
            />
          ))}
        </fieldset>
      )}
    </div>
  )
}

const typingMs = 250

/** The search field: sends the text when the person pauses, and gets the focus by the key `/`. */
function SearchBox({ text, onChange }: { text: string; onChange: (text: string | undefined) => void }) {
  const [typed, setTyped] = useState(text)
  const input = useRef<HTMLInputElement>(null)
  const change = useRef(onChange)
  change.current = onChange
  useEffect(() => {
    if (typed === text) return
    const timer = setTimeout(() => change.current(typed === '' ? undefined : typed), typingMs)
    return () => clearTimeout(timer)
  }, [typed, text])
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      input.current?.focus()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <input
      ref={input}
      type="search"
      className="record-search"
      aria-label="Search"
      aria-keyshortcuts="/"
      placeholder="Search ( / )"
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  )
}
