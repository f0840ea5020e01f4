import type { Config } from '../config/config.ts'
import { openStores, type Stores } from '../stores.ts'

/** A line on the standard output. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`)

/** JSON as people and programs read it. */
export const printJson = (value: unknown): void => print(JSON.stringify(value, null, 2))

/** Makes the frame of commands that work beside a running service: they open its stores, and close them at the end. */
export const withStores =
  (configuration: () => Config) =>
  async (work: (stores: Stores) => Promise<void>): Promise<void> => {
    const stores = await openStores(configuration())
    await work(stores).finally(() => stores.db.close())
  }

/** A list as the command line takes it: separated by spaces or commas. */
export const listed = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '')
