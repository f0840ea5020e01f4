import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { bytesText, countText, percentText, Time } from '../../ui/format.tsx'
import { Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { UsageBar } from '../../ui/usage-bar.tsx'

type Storage = components['schemas']['Storage']

const fewTables = 8
const lowShare = 0.1
const measuringMs = 5_000
const restingMs = 60_000
const emptyBytes = 512 * 1024 ** 2

/** The disk usage by file system, folder and table. */
export function StorageUse() {
  const api = useApi()
  const query = useQuery({
    queryKey: ['storage'],
    queryFn: () => unwrap(api.GET('/api/storage')),
    refetchInterval: ({ state }) => (state.data?.tables === undefined ? measuringMs : restingMs),
  })
  return (
    <Loaded query={query}>
      {(storage) => (
        <>
          <Section title="Disks">
            <div className="grid">
              {storage.disks.map((disk) => (
                <Disk key={disk.contains.join()} disk={disk} />
              ))}
            </div>
          </Section>
          <Section title="What takes space">
            <Files storage={storage} />
          </Section>
          <Section title={storage.tableBytes === undefined ? 'Tables' : `Tables (${bytesText(storage.tableBytes)})`}>
            <Tables storage={storage} />
            <p className="quiet small">
              Measured <Time at={storage.measuredAt} isRelative /> on the node that responded.
            </p>
          </Section>
        </>
      )}
    </Loaded>
  )
}

function Disk({ disk: { contains, freeBytes, totalBytes } }: { disk: Storage['disks'][number] }) {
  const used = totalBytes - freeBytes
  const isLow = freeBytes < totalBytes * lowShare
  const tone = freeBytes < emptyBytes ? 'wrong' : isLow ? 'warn' : undefined
  return (
    <div className="card stack tight">
      <h3>Disk with {contains.join(', ')}</h3>
      <UsageBar share={used / Math.max(1, totalBytes)} tone={tone} />
      <p>
        {bytesText(freeBytes)} free of {bytesText(totalBytes)} ({percentText(used / Math.max(1, totalBytes))} used)
      </p>
    </div>
  )
}

/** A file, a folder or all tables of a database. */
type Part = Omit<Storage['files'][number], 'name'> & { name: string }

function Files({ storage: { engine, files, tableBytes } }: { storage: Storage }) {
  // The file of a SQLite database contains its tables.
  const database: Part[] =
    engine === 'postgres' && tableBytes !== undefined
      ? [{ name: 'tables and indexes', place: 'in PostgreSQL', bytes: tableBytes }]
      : []
  const all = [...database, ...files].toSorted((one, other) => (other.bytes ?? 0) - (one.bytes ?? 0))
  const largest = Math.max(1, ...all.map(({ bytes = 0 }) => bytes))
  return (
    <Table
      label="Files and folders"
      rows={all}
      keyOf={({ name }) => name}
      columns={[
        { title: 'What', cell: ({ name }) => name },
        {
          title: 'Size',
          isNumber: true,
          cell: ({ bytes }) => (bytes === undefined ? 'not measured' : bytesText(bytes)),
        },
        { title: 'Share', cell: ({ bytes = 0 }) => <UsageBar share={bytes / largest} /> },
        {
          title: 'Files',
          isNumber: true,
          cell: ({ files, complete }) =>
            files === undefined ? '–' : `${countText(files)}${complete === false ? ' or more' : ''}`,
        },
        { title: 'Place', cell: ({ place }) => <code>{place}</code> },
      ]}
    />
  )
}

function Tables({ storage: { tables } }: { storage: Storage }) {
  const [isAll, setAll] = useState(false)
  if (tables === undefined) return <p className="notice">The tables are being measured. Try again in a minute.</p>
  const largest = Math.max(1, tables[0]?.bytes ?? 0)
  return (
    <>
      <Table
        label="Tables of the database"
        rows={isAll ? tables : tables.slice(0, fewTables)}
        keyOf={({ table }) => table}
        columns={[
          { title: 'Table', cell: ({ table }) => <code>{table}</code> },
          { title: 'Size', isNumber: true, cell: ({ bytes }) => bytesText(bytes) },
          { title: 'Share', cell: ({ bytes }) => <UsageBar share={bytes / largest} /> },
          { title: 'Rows', isNumber: true, cell: ({ rows }) => countText(rows) },
        ]}
      />
      {tables.length > fewTables && (
        <div className="row">
          <Button isCompact onPress={() => setAll(!isAll)}>
            {isAll ? 'Show the largest tables' : `Show all ${countText(tables.length)} tables`}
          </Button>
        </div>
      )}
    </>
  )
}
