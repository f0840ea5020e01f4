/** Words for made-up book titles; each `{slot}` in a pattern is replaced by a word from the list of the same name. */
export const slots: Readonly<Record<string, readonly string[]>> = {
  adjective: [
    ...['Silent', 'Borrowed', 'Glass', 'Forgotten', 'Crimson', 'Distant', 'Hollow', 'Patient', 'Second', 'Unwritten'],
    ...['Northern', 'Restless', 'Paper', 'Drowned', 'Amber', 'Invisible'],
  ],
  thing: [
    ...['Garden', 'Lighthouse', 'Orchard', 'Map', 'River', 'Archive', 'Clock', 'Harbour', 'Letter', 'Bridge', 'Mirror'],
    ...['Observatory', 'Staircase', 'Winter', 'Island', 'Piano', 'Railway', 'Lantern'],
  ],
  role: [
    ...[
      'Cartographer',
      'Beekeeper',
      'Clockmaker',
      'Translator',
      'Astronomer',
      'Gardener',
      'Pilot',
      'Archivist',
      'Weaver',
    ],
    ...['Lighthouse Keeper', 'Night Porter', 'Botanist', 'Locksmith', 'Conductor'],
  ],
  place: [
    ...[
      'Lisbon',
      'Trieste',
      'Valparaíso',
      'the Hebrides',
      'Kraków',
      'Marrakesh',
      'Reykjavík',
      'the Lagoon',
      'Zanzibar',
    ],
    ...['the High Fens', 'Odesa', 'Kyoto', 'the Salt Coast', 'Montréal'],
  ],
  past: [
    ...[
      'Salt',
      'the Silk Road',
      'Cartography',
      'the Printing Press',
      'Lighthouses',
      'Trade Winds',
      'Paper',
      'the Guilds',
    ],
    ...['the Canal Age', 'Coffee Houses', 'Clocks', 'the Hanseatic League'],
  ],
  science: [
    ...[
      'Tides',
      'Lichens',
      'Dark Matter',
      'Bird Migration',
      'Glaciers',
      'Soil',
      'Prime Numbers',
      'Volcanoes',
      'Colour',
    ],
    ...['the Deep Sea', 'Sleep', 'Insects'],
  ],
  craft: [
    ...[
      'Bread',
      'Fermentation',
      'Pasta',
      'Open Fire',
      'Winter Vegetables',
      'Street Food',
      'Preserves',
      'Spices',
      'Cheese',
    ],
    ...['the Sunday Table', 'Rice', 'Pastry'],
  ],
  system: [
    ...[
      'Distributed Systems',
      'Relational Databases',
      'Type Theory',
      'Queues',
      'Protocols',
      'Compilers',
      'Cryptography',
    ],
    ...['Caches', 'Networks', 'Concurrency', 'Testing', 'Version Control'],
  ],
}

const novel = [
  ...['The {adjective} {thing}', 'The {role} of {place}', 'A {thing} in {place}', 'The {thing} of {place}'],
  ...["The {role}'s {thing}", 'The Last {role}', 'Letters from {place}', 'What the {role} Knew', 'Before the {thing}'],
  ...['The {adjective} {role}', 'The Road to {place}', 'Beyond the {adjective} {thing}'],
]
const about = (slot: string) => [
  ...[`A Short History of {${slot}}`, `The Book of {${slot}}`, `{${slot}}, Explained`, `Notes on {${slot}}`],
  ...[`In Praise of {${slot}}`, `A Field Guide to {${slot}}`, `{${slot}}: An Introduction`, `Understanding {${slot}}`],
]

/** Genres with their title patterns. */
export const genres: readonly (readonly [genre: string, patterns: readonly string[]])[] = [
  ['Literary Fiction', novel],
  ['Mystery', [...novel, 'Murder at the {thing}', 'Death of a {role}', 'The {place} Inheritance']],
  ['Science Fiction', [...novel, '{thing} Station', 'The {adjective} Orbit', 'The Moons of {place}']],
  ['Fantasy', [...novel, 'The {adjective} Crown', 'Heir of the {thing}', 'The {role} and the {thing}']],
  ['Historical Fiction', [...novel, "The {role}'s Daughter", '{place}, 1911']],
  ['Poetry', ['{adjective} {thing}', '{thing} Songs', 'Poems for a {role}', 'Nocturne with {thing}']],
  ['Travel', ['Slowly through {place}', 'A Year in {place}', 'Walking to {place}', '{place} by Night Train']],
  ['History', about('past')],
  ['Science', about('science')],
  ['Cooking', about('craft')],
  ['Technology', about('system')],
]
