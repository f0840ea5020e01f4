import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSession } from '../../session/session.ts'
import { Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { allows, readPage, useResources, useSend } from './data.ts'
import { type NestedList, type Resource, type Row, titleFieldOf, titleOf } from './model.ts'
import { Value } from './value.tsx'

const shownRows = 5
const shownColumns = 5

/** The rows of other resources that refer to a row. */
export function Related({ resource, row }: { resource: Resource; row: Row }) {
  const session = useSession()
  const resources = useResources().data ?? []
  return resource.nested
    .filter(({ access }) => allows(session, access))
    .map((nested) => {
      const target = resources.find(({ name }) => name === nested.resource)
      return target && <RelatedRows key={nested.path} {...{ resource, row, nested, target }} />
    })
}

interface RelatedRowsProps {
  resource: Resource
  row: Row
  nested: NestedList
  target: Resource
}

function RelatedRows({ resource, row, nested, target }: RelatedRowsProps) {
  const send = useSend()
  const path = nested.path.replace('{id}', encodeURIComponent(row.id))
  const rows = useQuery({
    queryKey: ['records', target.name, 'list', 'nested', path],
    queryFn: ({ signal }) => readPage<Row>(send, `${path}?limit=${shownRows}`, signal),
  })
  const reference = target.fields.find((field) => field.reference === resource.name)
  const isFilter = target.filters.some(({ parameter }) => parameter === reference?.name)
  const columns = target.fields
    .filter((field) => field.isListed && field !== reference && field !== titleFieldOf(target))
    .slice(0, shownColumns)
  const all = isFilter && reference && (
    <Link
      to="/records/$resource"
      params={{ resource: target.name }}
      search={{ filters: [[reference.name, String(row.id)]] }}
    >
      Show all
    </Link>
  )
  return (
    <div className="card">
      <Section title={target.title} actions={all}>
        <Loaded query={rows}>
          {({ items }) =>
            items.length === 0 ? (
              <p className="quiet">None</p>
            ) : (
              <Table
                label={target.title}
                rows={items}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'Row',
                    cell: (one) => (
                      <Link to="/records/$resource/row/$id" params={{ resource: target.name, id: String(one.id) }}>
                        {titleOf(one, target)}
                      </Link>
                    ),
                  },
                  ...columns.map((field) => ({
                    title: field.label,
                    cell: (one: Row) => <Value field={field} row={one} />,
                    isNumber: field.isNumber,
                  })),
                ]}
              />
            )
          }
        </Loaded>
      </Section>
    </div>
  )
}
